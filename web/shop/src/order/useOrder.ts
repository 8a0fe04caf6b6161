import { onScopeDispose, ref, shallowRef } from 'vue'
import type { ApiError } from '../api/problem'
import type { Order } from '../api/types'
import { followOrder } from './browserWatch'

/** useOrder follows an order for as long as the page is shown. */
export function useOrder(id: string) {
  const order = shallowRef<Order | null>(null)
  const problem = shallowRef<ApiError | null>(null)
  /** Nobody is watching any more, and the order has no result yet. */
  const gaveUp = ref(false)
  let stop = () => {}

  function follow() {
    stop()
    gaveUp.value = false
    problem.value = null
    stop = followOrder(id, {
      order: (fresh) => (order.value = fresh),
      refused: (error) => (problem.value = error),
      gaveUp: () => (gaveUp.value = true),
    })
  }

  follow()
  onScopeDispose(() => stop())
  return { order, problem, gaveUp, follow }
}
