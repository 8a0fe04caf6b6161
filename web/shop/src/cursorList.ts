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
  /** Fetches the first page and puts it in place of what is shown. */
  reload(): Promise<void>
  /** Appends the next page; does nothing while a page is on its way. */
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

  async function load(cursor: string | undefined) {
    const own = ++round
    loading.value = true
    try {
      const page = await fetchPage(cursor)
      if (own !== round) return
      const fresh = page.items ?? []
      items.value = cursor === undefined ? fresh : [...items.value, ...fresh]
      next = page.nextCursor || undefined
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
    reload: () => load(undefined),
    more: async () => {
      if (!loading.value) await load(next)
    },
  }
}
