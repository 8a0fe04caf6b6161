import { computed, onScopeDispose, ref } from 'vue'
import { api, unwrap } from './api/client'
import { fromThrown } from './api/problem'

const resendMs = 60_000
const phonePattern = /^1[3-9]\d{9}$/

/** isPhone is the quick check before asking the server, which has the last word. */
export function isPhone(text: string): boolean {
  return phonePattern.test(text)
}

/** useResend counts down to when another code may be asked for. */
export function useResend() {
  const left = ref(0)
  let until = 0
  let timer = 0

  function tick() {
    left.value = Math.max(0, Math.ceil((until - performance.now()) / 1000))
    if (left.value > 0) timer = window.setTimeout(tick, 250)
  }
  function wait(ms: number) {
    clearTimeout(timer)
    until = performance.now() + ms
    tick()
  }
  onScopeDispose(() => clearTimeout(timer))

  /** send asks for a code; throws an ApiError. When the server says it is too early, its time counts. */
  async function send(phone: string): Promise<void> {
    wait(resendMs)
    try {
      await unwrap(api.POST('/api/v1/auth/codes', { body: { phone } }))
    } catch (thrown) {
      const error = fromThrown(thrown)
      wait(error.code === 'auth.code_too_often' ? (error.retryAfterMs ?? resendMs) : 0)
      throw error
    }
  }

  return { left: computed(() => left.value), send }
}
