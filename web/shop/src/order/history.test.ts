import { expect, it } from 'vitest'
import type { Order, OrderStatus } from '../api/types'
import { closedBy, isOlder } from './history'

/** An order that has moved through the statuses, the last one for a reason. */
function order(moves: OrderStatus[], reason?: string): Order {
  return {
    id: '70',
    saleId: '1',
    voucher: { id: '9', title: '50元代金券', shopId: '3' },
    shop: { id: '3', name: '巷口小馆' },
    status: moves.at(-1) ?? 'queued',
    amount: 4750,
    admittedAt: '2026-03-01T04:00:00Z',
    payBefore: '2026-03-01T04:30:00Z',
    history: moves.map((to, i) => ({ to, at: '2026-03-01T04:00:00Z', reason: i === moves.length - 1 ? reason : undefined })),
  }
}

it.each([
  [['unpaid', 'paid', 'refunding'], ['unpaid', 'paid', 'refunding', 'refunded'], true],
  [[], ['unpaid'], true],
  [['unpaid', 'paid'], ['unpaid', 'paid'], false],
  [['unpaid', 'paid', 'used', 'paid'], ['unpaid', 'paid', 'used'], false],
] as [OrderStatus[], OrderStatus[], boolean][])('%j after %j is an old answer: %s', (answer, known, older) => {
  expect(isOlder(order(answer), order(known))).toBe(older)
})

it('the first answer is never old', () => {
  expect(isOlder(order([]), null)).toBe(false)
})

it.each([
  ['buyer', 'buyer'],
  ['timeout', 'timeout'],
  [undefined, 'timeout'],
])('closed for %j reads %j', (reason, by) => {
  expect(closedBy(order(['unpaid', 'closed'], reason))).toBe(by)
})
