import { defineStore } from 'pinia'
import { computed, shallowRef } from 'vue'
import { api, unwrap } from './api/client'
import type { ApiError } from './api/problem'
import type { Me } from './api/types'

const retryMs = 5_000

/**
 * Who is signed in. The token itself lives in an HttpOnly cookie; this only
 * remembers what the server said about it. `unknown` lasts until it has spoken.
 */
export const useSession = defineStore('session', () => {
  const me = shallowRef<Me | null>(null)
  const state = shallowRef<'unknown' | 'anonymous' | 'signedIn'>('unknown')
  const userId = computed(() => me.value?.id ?? '')

  function set(user: Me | null) {
    me.value = user
    state.value = user ? 'signedIn' : 'anonymous'
  }

  /** load asks who is signed in; while the server can't tell it keeps asking. */
  async function load(): Promise<void> {
    try {
      set(await unwrap(api.GET('/api/v1/me')))
    } catch (error) {
      if ((error as ApiError).status === 401) return set(null)
      setTimeout(() => void load(), retryMs)
    }
  }

  /** signIn throws an ApiError when the server refuses. */
  async function signIn(credentials: { phone: string; code?: string; password?: string }): Promise<void> {
    await unwrap(api.POST('/api/v1/auth/sessions', { body: credentials }))
    await load()
  }

  async function signOut(): Promise<void> {
    await unwrap(api.DELETE('/api/v1/auth/sessions/current'))
    set(null)
  }

  /** lost is called when a reply shows that the session is over. */
  function lost() {
    set(null)
  }

  return { me, state, userId, load, signIn, signOut, lost }
})
