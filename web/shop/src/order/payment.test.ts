import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { ApiError } from '../api/problem'
import type { Order, OrderStatus } from '../api/types'
import { CashierMemory, cashierAddress, confirmForMs, keepAsking, Payment, payView, type Paying } from './payment'

const now = Date.parse('2026-03-01T04:00:00Z')

type Attempt = NonNullable<Order['payments']>[number]['status']

function order(status: OrderStatus, ...attempts: Attempt[]): Order {
  return {
    id: '70',
    saleId: '1',
    voucher: { id: '9', title: '50元代金券', shopId: '3' },
    shop: { id: '3', name: '巷口小馆' },
    status,
    amount: 4750,
    admittedAt: '2026-03-01T04:00:00Z',
    payBefore: '2026-03-01T04:30:00Z',
    history: [],
    payments: attempts.map((status, i) => ({ paymentId: `${i}`, provider: 'sandbox', status, createdAt: '2026-03-01T04:00:00Z' })),
  }
}

/** A storage of its own, as a tab has. */
function storage() {
  const kept = new Map<string, string>()
  return {
    kept,
    getItem: (name: string) => kept.get(name) ?? null,
    setItem: (name: string, value: string) => void kept.set(name, value),
    removeItem: (name: string) => void kept.delete(name),
  }
}

/** A tab that pays; `answer` is what the next POST gets. */
function tab(tabStorage = storage()) {
  const seen = { posts: 0, left: [] as string[], reloads: 0, signIns: 0 }
  const world = { seen, storage: tabStorage, answer: null as ApiError | Promise<{ payUrl: string }> | null, payment: null as unknown as Payment }
  world.payment = new Payment({
    post: async () => {
      seen.posts++
      if (world.answer instanceof ApiError) throw world.answer
      return world.answer ?? { payUrl: '/cashier' }
    },
    leave: (url) => void seen.left.push(url),
    reload: async () => void seen.reloads++,
    signIn: () => void seen.signIns++,
    now: () => now,
    memory: new CashierMemory(tabStorage, '70'),
  })
  return world
}

describe('opening the cashier', () => {
  it('takes one request for three taps', async () => {
    const world = tab()
    await Promise.all([world.payment.tap(), world.payment.tap(), world.payment.tap()])
    expect(world.seen).toMatchObject({ posts: 1, left: ['/cashier'] })
  })

  it.each([
    [new ApiError('client.network', 0), { kind: 'unanswered' }],
    [new ApiError('client.timeout', 0), { kind: 'unanswered' }],
    [new ApiError('payment.unavailable', 503), { kind: 'unanswered' }],
    [new ApiError('order.not_payable', 409), { kind: 'refused', code: 'order.not_payable' }],
  ])('ends at %o', async (answer, state) => {
    const world = tab()
    world.answer = answer
    await world.payment.tap()
    expect(world.payment.state.value).toEqual(state)
    expect(world.seen).toMatchObject({ reloads: 1, left: [] })
    expect(world.storage.kept.size).toBe(0)
  })

  it('may be tried again after a lost reply', async () => {
    const world = tab()
    world.answer = new ApiError('client.network', 0)
    await world.payment.tap()
    world.answer = null
    await world.payment.tap()
    expect(world.seen).toMatchObject({ posts: 2, left: ['/cashier'] })
  })

  it('leads to signing in when the session is over', async () => {
    const world = tab()
    world.answer = new ApiError('auth.required', 401)
    await world.payment.tap()
    expect(world.seen.signIns).toBe(1)
    expect(world.payment.state.value).toBeNull()
  })
})

describe('coming back from the cashier', () => {
  async function back() {
    const before = tab()
    await before.payment.tap()
    return tab(before.storage)
  }

  it('is noticed after a reload and when the browser kept the page', async () => {
    const world = tab()
    await world.payment.tap()
    expect(world.payment.state.value?.kind).toBe('opening')
    world.payment.returned()
    expect(world.payment.state.value).toEqual({ kind: 'away', since: now })
    expect(tab(world.storage).payment.state.value).toEqual({ kind: 'away', since: now })
  })

  it.each([
    [order('unpaid', 'open'), 'away'],
    [order('unpaid', 'failed', 'open'), 'away'],
    [order('unpaid', 'open', 'failed'), undefined],
    [order('unpaid', 'closed'), undefined],
    [order('paid', 'captured'), undefined],
    [order('closed', 'closed'), undefined],
    [order('refunding', 'captured'), undefined],
  ])('asks until the outcome is known: %#', async (told, kind) => {
    const world = await back()
    world.payment.orderChanged(told)
    expect(world.payment.state.value?.kind).toBe(kind)
    expect(world.storage.kept.size).toBe(kind ? 1 : 0)
  })

  it('of another order is none of this one\'s business', () => {
    const shared = storage()
    new CashierMemory(shared, '71').set(true)
    expect(tab(shared).payment.state.value).toBeNull()
  })
})

describe('the cashier', () => {
  it.each([
    ['/sandbox/pay/5?k=a%2Bb', 'en', '/sandbox/pay/5?k=a%2Bb&lang=en'],
    ['/sandbox/pay/5?k=a%2Bb', 'zh-CN', '/sandbox/pay/5?k=a%2Bb&lang=zh'],
    ['https://pay.example/q?sign=x', 'en', 'https://pay.example/q?sign=x'],
  ])('of this server speaks the language chosen here, another\'s address is not touched: %s %s', (url, language, address) => {
    expect(cashierAddress(url, language)).toBe(address)
  })
})

it('pays where the browser forbids any storage', async () => {
  const world = tab({ ...storage(), setItem: () => { throw new DOMException('full', 'QuotaExceededError') } })
  await world.payment.tap()
  expect(world.seen.left).toEqual(['/cashier'])
  expect(new CashierMemory(null, '70').is()).toBe(false)
})

describe('the page shows', () => {
  const away: Paying = { kind: 'away', since: now }
  it.each([
    ['loading', null, null, now],
    ['queued', order('queued'), null, now],
    ['ready', order('unpaid'), null, now],
    ['opening', order('unpaid'), { kind: 'opening' } as Paying, now],
    ['unanswered', order('unpaid'), { kind: 'unanswered' } as Paying, now],
    ['refused', order('unpaid'), { kind: 'refused', code: 'order.not_payable' } as Paying, now],
    ['confirming', order('unpaid', 'open'), away, now + confirmForMs - 1],
    ['unconfirmed', order('unpaid', 'open'), away, now + confirmForMs],
    ['over', order('unpaid', 'open'), away, now + 1_800_000],
    ['over', order('unpaid'), null, now + 1_800_000],
    ['closed', order('closed'), null, now],
    ['settled', { ...order('closed', 'captured'), refund: { amount: 4750, reason: 'late', status: 'asked' } } as Order, null, now],
    ['settled', order('paid', 'captured'), away, now],
    ['settled', order('refunded', 'captured'), null, now],
  ])('%s', (key, told, paying, at) => {
    expect(payView(told, paying, at).key).toBe(key)
  })

  it('counts down to the deadline, on the server\'s clock', () => {
    expect(payView(order('unpaid'), null, now + 6_000)).toMatchObject({ key: 'ready', ms: 1_794_000 })
    expect(payView(order('unpaid'), null, now + 1_799_999)).toMatchObject({ key: 'ready', ms: 1 })
  })

  it('that the last attempt failed, until another begins', () => {
    expect(payView(order('unpaid', 'failed'), null, now).failed).toBe(true)
    expect(payView(order('unpaid', 'failed', 'open'), null, now).failed).toBe(false)
  })
})

describe('asking', () => {
  beforeEach(() => void vi.useFakeTimers({ now: 0 }))
  afterEach(() => void vi.useRealTimers())

  it('slows down and ends when it is told to', async () => {
    const asked: number[] = []
    const stop = keepAsking(async () => void asked.push(Date.now()))
    await vi.advanceTimersByTimeAsync(12_000)
    stop()
    await vi.advanceTimersByTimeAsync(60_000)
    expect(asked).toEqual([0, 500, 1_500, 3_500, 7_500, 11_500])
  })

  it('begins nothing after a question that was under way when it was stopped', async () => {
    let asked = 0
    const stop = keepAsking(() => new Promise((resolve) => setTimeout(resolve, 100 * ++asked)))
    stop()
    await vi.advanceTimersByTimeAsync(60_000)
    expect(asked).toBe(1)
  })
})
