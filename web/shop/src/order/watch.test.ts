import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { ApiError } from '../api/problem'
import type { Order, OrderStatus } from '../api/types'
import { pollForMs, restingPollMs, silenceMs, watchOrder } from './watch'

function order(status: OrderStatus, money: Pick<Order, 'payments' | 'refund'> = {}): Order {
  return {
    ...money,
    id: '70',
    saleId: '1',
    voucher: { id: '9', title: '50元代金券', shopId: '3' },
    shop: { id: '3', name: '巷口小馆' },
    status,
    amount: 4750,
    admittedAt: '2026-03-01T04:00:00Z',
    payBefore: '2026-03-01T04:30:00Z',
    history: [],
  }
}

class Stream {
  readyState = 1
  closed = false
  private orderListener = (_event: { data: string }) => {}
  private errorListener = () => {}
  addEventListener(type: string, listener: never) {
    if (type === 'order') this.orderListener = listener
    else this.errorListener = listener
  }
  close() {
    this.closed = true
    this.readyState = 2
  }
  send(status: OrderStatus, money?: Pick<Order, 'payments' | 'refund'>) {
    this.orderListener({ data: JSON.stringify(order(status, money)) })
  }
  fail(readyState: number) {
    this.readyState = readyState
    this.errorListener()
  }
}

/** A watched order; `answer` is what polling gets, `asked` when it asked. */
function watched() {
  const stream = new Stream()
  const seen = { statuses: [] as OrderStatus[], refused: [] as string[], gaveUp: 0, asked: [] as number[] }
  const w = { stream, seen, answer: 'queued' as OrderStatus | Order | ApiError, stop: () => {} }
  w.stop = watchOrder(
    '70',
    {
      order: ({ status }) => void seen.statuses.push(status),
      refused: ({ code }) => void seen.refused.push(code),
      gaveUp: () => void seen.gaveUp++,
    },
    {
      open: () => stream as never,
      fetch: async () => {
        seen.asked.push(Date.now())
        if (w.answer instanceof ApiError) throw w.answer
        return typeof w.answer === 'string' ? order(w.answer) : w.answer
      },
      random: () => 0.5,
      now: () => Date.now(),
    },
  )
  return w
}

beforeEach(() => void vi.useFakeTimers({ now: 0 }))
afterEach(() => void vi.useRealTimers())

describe('with a stream that works', () => {
  it('hands on every change and ends at a last status', async () => {
    const { stream, seen } = watched()
    stream.send('queued')
    await vi.advanceTimersByTimeAsync(silenceMs * 10)
    stream.send('unpaid')
    expect(stream.closed).toBe(false)
    stream.send('closed')
    expect(seen).toMatchObject({ statuses: ['queued', 'unpaid', 'closed'], asked: [], gaveUp: 0 })
    expect(stream.closed).toBe(true)
  })

  it('stays with a used order, whose redemption may be taken back', () => {
    const { stream, seen } = watched()
    for (const status of ['paid', 'used', 'paid'] as const) stream.send(status)
    expect(seen.statuses).toEqual(['paid', 'used', 'paid'])
    expect(stream.closed).toBe(false)
  })

  it('looks now and then for money that arrives after the order was closed, until it is back', async () => {
    const w = watched()
    const payments: Order['payments'] = [{ paymentId: '5', provider: 'sandbox', status: 'closed', createdAt: '2026-03-01T04:00:00Z' }]
    const refund = (status: 'asked' | 'done'): Order['refund'] => ({ amount: 4750, reason: 'late', status })
    w.stream.send('closed', { payments })
    expect(w.stream.closed).toBe(true)
    w.answer = order('closed', { payments, refund: refund('asked') })
    await vi.advanceTimersByTimeAsync(restingPollMs)
    w.answer = order('closed', { payments, refund: refund('done') })
    await vi.advanceTimersByTimeAsync(restingPollMs * 10)
    expect(w.seen.asked).toEqual([restingPollMs, restingPollMs * 2])
    expect(w.seen.statuses).toEqual(['closed', 'closed', 'closed'])
  })

  it('lets the browser reconnect after a short break', async () => {
    const { stream, seen } = watched()
    stream.send('queued')
    stream.fail(0)
    stream.fail(0)
    stream.send('queued')
    stream.fail(0)
    stream.fail(0)
    await vi.advanceTimersByTimeAsync(10_000)
    expect(seen.asked).toEqual([])
  })
})

describe('without a stream', () => {
  it.each([
    ['it was refused', (stream: Stream) => stream.fail(2)],
    ['it keeps breaking', (stream: Stream) => [0, 0, 0].forEach((state) => stream.fail(state))],
  ])('polls because %s', async (_why, breakIt) => {
    const w = watched()
    breakIt(w.stream)
    w.answer = 'unpaid'
    await vi.advanceTimersByTimeAsync(500)
    expect(w.seen.statuses.at(-1)).toBe('unpaid')
    expect(w.stream.closed).toBe(true)
  })

  it('goes on looking now and then once the queue has decided, until nothing can change any more', async () => {
    const w = watched()
    w.answer = 'paid'
    w.stream.fail(2)
    await vi.advanceTimersByTimeAsync(0)
    w.answer = 'used'
    await vi.advanceTimersByTimeAsync(restingPollMs)
    w.answer = 'refunded'
    await vi.advanceTimersByTimeAsync(restingPollMs * 10)
    expect(w.seen.statuses).toEqual(['paid', 'used', 'refunded'])
    expect(w.seen.asked).toEqual([0, restingPollMs, restingPollMs * 2])
    expect(w.seen.gaveUp).toBe(0)
  })

  it('polls because it stays silent, slower and slower, and stops after a minute', async () => {
    const { seen, stream } = watched()
    await vi.advanceTimersByTimeAsync(silenceMs + pollForMs * 2)
    const gaps = seen.asked.slice(1).map((time, i) => time - seen.asked[i]!)
    expect(seen.asked[0]).toBe(silenceMs)
    expect(gaps.slice(0, 5)).toEqual([500, 1_000, 2_000, 4_000, 4_000])
    expect(seen.gaveUp).toBe(1)
    expect(seen.asked.at(-1)! - silenceMs).toBeLessThan(pollForMs + 4_000)
    expect(stream.closed).toBe(true)
  })

  it('goes on through errors that pass', async () => {
    const w = watched()
    w.answer = new ApiError('order.unknown', 503)
    w.stream.fail(2)
    await vi.advanceTimersByTimeAsync(5_000)
    w.answer = 'failed'
    await vi.advanceTimersByTimeAsync(5_000)
    expect(w.seen).toMatchObject({ statuses: ['failed'], refused: [] })
  })

  it.each([
    ['order.not_found', 404],
    ['auth.required', 401],
  ])('ends at %s', async (code, status) => {
    const w = watched()
    w.answer = new ApiError(code, status)
    w.stream.fail(2)
    await vi.advanceTimersByTimeAsync(60_000)
    expect(w.seen.refused).toEqual([code])
    expect(w.seen.asked).toHaveLength(1)
  })
})

it('says nothing more once it is stopped', async () => {
  const w = watched()
  w.stop()
  w.stream.send('unpaid')
  await vi.advanceTimersByTimeAsync(60_000)
  expect(w.seen).toMatchObject({ statuses: [], asked: [], gaveUp: 0 })
})
