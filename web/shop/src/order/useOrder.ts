import { onScopeDispose, ref, shallowRef } from 'vue'
import { api, unwrap } from '../api/client'
import { fromThrown, type ApiError } from '../api/problem'
import type { Order } from '../api/types'
import { followOrder } from './browserWatch'

/** useOrder follows an order for as long as the page is shown. */
export function useOrder(id: string) {
  const order = shallowRef<Order | null>(null)
  const problem = shallowRef<ApiError | null>(null)
  /** Nobody is watching any more, and the order has no result yet. */
  const gaveUp = ref(false)
  let told = 0
  let stop = () => {}

  function apply(fresh: Order) {
    told++
    order.value = fresh
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

  /** reload looks at once; an answer that something newer has overtaken is dropped. It never throws. */
  async function reload(): Promise<void> {
    const before = told
    try {
      const fresh = await unwrap(api.GET('/api/v1/orders/{id}', { params: { path: { id } } }))
      if (told === before) apply(fresh)
    } catch (thrown) {
      const error = fromThrown(thrown)
      if (error.status === 401 || error.status === 404) problem.value = error
    }
  }

  follow()
  onScopeDispose(() => stop())
  return { order, problem, gaveUp, follow, reload, apply }
}
