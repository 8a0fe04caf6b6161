import { onScopeDispose, ref, shallowRef } from 'vue'
import { api, unwrap } from '../api/client'
import { fromThrown, type ApiError } from '../api/problem'
import type { Order } from '../api/types'
import { followOrder } from './browserWatch'
import { isOlder } from './history'

/** useOrder follows an order for as long as the page is shown. */
export function useOrder(id: string) {
  const order = shallowRef<Order | null>(null)
  const problem = shallowRef<ApiError | null>(null)
  /** Nobody is watching any more, and the order has no result yet. */
  const gaveUp = ref(false)
  let stop = () => {}

  function apply(answer: Order) {
    if (!isOlder(answer, order.value)) order.value = answer
  }

  function follow() {
    stop()
    gaveUp.value = false
    problem.value = null
    stop = followOrder(id, {
      order: apply,
      refused: (error) => (problem.value = error),
      gaveUp: () => (gaveUp.value = true),
    })
  }

  /** reload looks at once. It never throws. */
  async function reload(): Promise<void> {
    try {
      apply(await unwrap(api.GET('/api/v1/orders/{id}', { params: { path: { id } } })))
    } catch (thrown) {
      const error = fromThrown(thrown)
      if (error.status === 401 || error.status === 404) problem.value = error
    }
  }

  /** wake goes on watching once the network or the reader is back. */
  function wake() {
    if (gaveUp.value && !document.hidden) follow()
  }
  window.addEventListener('online', wake)
  document.addEventListener('visibilitychange', wake)

  follow()
  onScopeDispose(() => {
    stop()
    window.removeEventListener('online', wake)
    document.removeEventListener('visibilitychange', wake)
  })
  return { order, problem, gaveUp, follow, reload, apply }
}
