import { onScopeDispose, shallowRef } from 'vue'
import { api, unwrap } from '../api/client'
import { fromThrown, type ApiError } from '../api/problem'
import type { MyOrder, Sale } from '../api/types'
import { clock } from '../clock'
import { nextReload } from './refresh'

const retryAfterErrorMs = 3_000

/**
 * useSale keeps a sale fresh while the page is in front: at the moments its
 * phase should flip, every few seconds in between, and when the page comes back.
 */
export function useSale(id: string) {
  const sale = shallowRef<Sale | null>(null)
  const problem = shallowRef<ApiError | null>(null)
  let timer = 0
  let disposed = false
  let round = 0

  async function load(): Promise<void> {
    const own = ++round
    clearTimeout(timer)
    const sentAt = clock.monotonic()
    try {
      const fresh = await unwrap(api.GET('/api/v1/sales/{id}', { params: { path: { id } } }))
      clock.hint(sentAt, Date.parse(fresh.serverTime))
      if (own !== round) return
      sale.value = fresh
      problem.value = null
    } catch (thrown) {
      if (own !== round) return
      problem.value = fromThrown(thrown)
    }
    schedule()
  }

  function schedule() {
    if (disposed || document.hidden) return
    const wait = sale.value && !problem.value ? nextReload(sale.value, clock.now(), Math.random()) : retryAfterErrorMs
    if (wait !== null && problem.value?.status !== 404) timer = window.setTimeout(() => void load(), wait)
  }

  /** apply puts into the sale what the server said about one of the buyer's orders. */
  function apply(order: MyOrder) {
    if (!sale.value) return
    const others = (sale.value.mine ?? []).filter((each) => each.orderId !== order.orderId)
    sale.value = { ...sale.value, mine: [order, ...others] }
  }

  function onVisibility() {
    if (document.hidden) clearTimeout(timer)
    else void load()
  }
  const reload = () => void load()
  document.addEventListener('visibilitychange', onVisibility)
  window.addEventListener('online', reload)
  onScopeDispose(() => {
    disposed = true
    clearTimeout(timer)
    document.removeEventListener('visibilitychange', onVisibility)
    window.removeEventListener('online', reload)
  })

  void load()
  return { sale, problem, load, apply }
}
