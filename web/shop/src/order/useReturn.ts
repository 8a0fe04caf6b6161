import { shallowRef, watch, type Ref } from 'vue'
import { api, unwrap } from '../api/client'
import type { Order, Sale } from '../api/types'

/** useReturn looks, once an order has come to nothing, whether its sale still goes on and what else is on. */
export function useReturn(order: Ref<Order | null>) {
  /** The sale is live: the buyer may try again. */
  const again = shallowRef(false)
  const others = shallowRef<Sale[]>([])

  watch(
    () => order.value?.status,
    async (status) => {
      const saleId = order.value?.saleId
      if (!saleId || (status !== 'failed' && status !== 'closed')) return
      try {
        const [sale, live] = await Promise.all([
          unwrap(api.GET('/api/v1/sales/{id}', { params: { path: { id: saleId } } })),
          unwrap(api.GET('/api/v1/sales', { params: { query: { state: 'live', limit: 4 } } })),
        ])
        again.value = sale.phase === 'live'
        others.value = (live.items ?? []).filter(({ id, phase }) => id !== saleId && phase === 'live').slice(0, 3)
      } catch {
        // Without suggestions the page still says what happened.
      }
    },
    { immediate: true },
  )
  return { again, others }
}
