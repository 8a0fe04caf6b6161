import { ref, shallowRef, type Ref, type ShallowRef } from 'vue'
import { fromThrown, type ApiError } from './api/problem'

export interface Page<T> {
  items: T[] | null
  nextCursor?: string
}

export interface CursorList<T> {
  items: ShallowRef<T[]>
  /** False until the first page has arrived. */
  ready: Ref<boolean>
  loading: Ref<boolean>
  problem: ShallowRef<ApiError | null>
  hasMore: Ref<boolean>
  /** Fetches anew as many items as are shown, so that the list doesn't shrink under the reader. */
  reload(): Promise<void>
  /** Appends the next page, or fetches anew when there is none; does nothing while a page is on its way. */
  more(): Promise<void>
}

/** cursorList is a paged list. A reload overtakes a page that is still on its way, whose reply is dropped. */
export function cursorList<T>(fetchPage: (cursor?: string) => Promise<Page<T>>): CursorList<T> {
  const items = shallowRef<T[]>([])
  const ready = ref(false)
  const loading = ref(false)
  const problem = shallowRef<ApiError | null>(null)
  const hasMore = ref(false)
  let next: string | undefined
  let round = 0

  /** load fetches pages onto `start` until there are `atLeast` items or no more. */
  async function load(start: T[], cursor: string | undefined, atLeast: number) {
    const own = ++round
    loading.value = true
    try {
      let all = start
      do {
        const page = await fetchPage(cursor)
        if (own !== round) return
        all = [...all, ...(page.items ?? [])]
        cursor = page.nextCursor || undefined
      } while (cursor !== undefined && all.length < atLeast)
      items.value = all
      next = cursor
      hasMore.value = next !== undefined
      problem.value = null
      ready.value = true
    } catch (thrown) {
      if (own === round) problem.value = fromThrown(thrown)
    } finally {
      if (own === round) loading.value = false
    }
  }

  return {
    items,
    ready,
    loading,
    problem,
    hasMore,
    reload: () => load([], undefined, items.value.length),
    more: async () => {
      if (loading.value) return
      if (next === undefined) await load([], undefined, items.value.length)
      else await load(items.value, next, 0)
    },
  }
}
