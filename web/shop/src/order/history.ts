import type { Order } from '../api/types'

/** closedBy tells why an order was closed: the buyer gave it up, or its time was over. An order is closed once at most. */
export function closedBy({ history }: Order): 'buyer' | 'timeout' {
  return history.some(({ to, reason }) => to === 'closed' && reason === 'buyer') ? 'buyer' : 'timeout'
}

/**
 * isOlder reports whether an answer about an order has been overtaken by what is known: an order only ever gains moves,
 * and the reply to a request may arrive after the event of what followed from it.
 */
export function isOlder(answer: Order, known: Order | null): boolean {
  return known !== null && answer.history.length < known.history.length
}
