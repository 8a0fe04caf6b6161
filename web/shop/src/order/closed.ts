import type { Order } from '../api/types'

/** closedBy tells why an order was closed: the buyer gave it up, or its time was over. An order is closed once at most. */
export function closedBy({ history }: Order): 'buyer' | 'timeout' {
  return history.some(({ to, reason }) => to === 'closed' && reason === 'buyer') ? 'buyer' : 'timeout'
}
