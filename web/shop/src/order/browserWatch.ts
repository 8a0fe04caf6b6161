import { api, unwrap } from '../api/client'
import { watchOrder, type WatchEvents } from './watch'

/** followOrder is watchOrder in the browser. */
export function followOrder(orderId: string, events: WatchEvents): () => void {
  return watchOrder(orderId, events, {
    open: (id) => new EventSource(`/api/v1/orders/${encodeURIComponent(id)}/events`),
    fetch: (id) => unwrap(api.GET('/api/v1/orders/{id}', { params: { path: { id } } })),
    random: Math.random,
    now: () => performance.now(),
  })
}
