import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { ApiError } from '../api/problem'
import type { Attempt } from './attempt'
import { Grab, outcomeOf, replyWithinMs } from './grab'

/** A page whose server answers when the test says so. */
function page(stored: Attempt | null = null) {
  const posts: { key: string; reply: (orderId: string) => void; refuse: (error: unknown) => void }[] = []
  const seen = { reloads: 0, signIns: 0, notices: [] as string[], saved: stored }
  let keys = 0
  const grab = new Grab({
    post: (key) =>
      new Promise((resolve, reject) => posts.push({ key, reply: (orderId) => resolve({ orderId }), refuse: reject })),
    reload: async () => void seen.reloads++,
    signIn: () => void seen.signIns++,
    notify: (code) => void seen.notices.push(code),
    newKey: () => `key-${++keys}`,
    now: () => Date.now(),
    store: { load: () => seen.saved, save: (attempt) => void (seen.saved = attempt) },
  })
  return { grab, posts, seen, kind: () => grab.attempt.value?.kind ?? null }
}

const refusal = (code: string, status: number, more: { retryAfterMs?: number; orderIds?: string[] } = {}) =>
  new ApiError(code, status, more.retryAfterMs, undefined, more.orderIds)

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

describe('a tap', () => {
  it('sets submitting before it returns, so three taps are one request', async () => {
    const { grab, posts, kind } = page()
    const first = grab.tap()
    expect(kind()).toBe('submitting')
    await Promise.all([grab.tap(), grab.tap()])
    expect(posts).toHaveLength(1)
    posts[0]!.reply('1234567890123452817')
    await first
    await grab.tap()
    expect(posts).toHaveLength(1)
    expect(grab.attempt.value).toMatchObject({ kind: 'queued', key: 'key-1', orderId: '1234567890123452817' })
  })

  it('is on record before the request leaves', () => {
    const { grab, seen } = page()
    void grab.tap()
    expect(seen.saved).toMatchObject({ kind: 'submitting', key: 'key-1' })
  })

  it('uses a new key after a failure and the same key while the result is unknown', async () => {
    const { grab, posts } = page()
    const first = grab.tap()
    posts[0]!.refuse(refusal('sale.busy', 503))
    await first
    const second = grab.tap()
    posts[1]!.refuse(refusal('sale.unknown', 503))
    await second
    void grab.tap()
    expect(posts.map(({ key }) => key)).toEqual(['key-1', 'key-2', 'key-2'])
  })

  it('goes on with the key of an attempt from before the reload', () => {
    const { grab, posts } = page({ kind: 'unknown', key: 'old-key', since: 0 })
    void grab.tap()
    expect(posts[0]!.key).toBe('old-key')
  })
})

describe('a reply that takes too long', () => {
  it('makes the result unknown, and still counts when it comes', async () => {
    const { grab, posts, kind } = page()
    const tap = grab.tap()
    vi.advanceTimersByTime(replyWithinMs - 1)
    expect(kind()).toBe('submitting')
    vi.advanceTimersByTime(1)
    expect(kind()).toBe('unknown')
    posts[0]!.reply('70')
    await tap
    expect(kind()).toBe('queued')
  })

  it('does not undo the answer to asking again', async () => {
    const { grab, posts, kind } = page()
    const first = grab.tap()
    vi.advanceTimersByTime(replyWithinMs)
    const second = grab.tap()
    posts[1]!.reply('70')
    await second
    posts[0]!.refuse(refusal('client.network', 0))
    await first
    expect(kind()).toBe('queued')
  })
})

describe('a refusal', () => {
  const table: [string, ApiError, ReturnType<typeof outcomeOf>][] = [
    ['sold out', refusal('sale.sold_out', 409), { kind: 'failed', code: 'sale.sold_out' }],
    ['busy', refusal('sale.busy', 503), { kind: 'failed', code: 'sale.busy' }],
    ['session not checkable', refusal('auth.unknown', 503), { kind: 'failed', code: 'auth.unknown' }],
    ['at the limit', refusal('sale.limit_reached', 409, { orderIds: ['70'] }), { kind: 'bought', orderId: '70' }],
    ['at the limit, unnamed', refusal('sale.limit_reached', 409), { kind: 'stale', code: 'sale.limit_reached' }],
    ['too early', refusal('sale.not_started', 409), { kind: 'stale', code: 'sale.not_started' }],
    ['too late', refusal('sale.ended', 409), { kind: 'stale', code: 'sale.ended' }],
    ['paused', refusal('sale.paused', 409), { kind: 'stale', code: 'sale.paused' }],
    ['gone', refusal('sale.not_found', 404), { kind: 'stale', code: 'sale.not_found' }],
    ['signed out', refusal('auth.required', 401), { kind: 'signIn' }],
    ['too often', refusal('limit.exceeded', 429, { retryAfterMs: 2_500 }), { kind: 'limited', afterMs: 2_500 }],
    ['too often, no time named', refusal('limit.exceeded', 429), { kind: 'limited', afterMs: 1_000 }],
    ['not known', refusal('sale.unknown', 503), { kind: 'unknown' }],
    ['no reply', refusal('client.network', 0), { kind: 'unknown' }],
    ['a proxy in the way', refusal('client.unreadable', 502), { kind: 'unknown' }],
    ['a broken server', refusal('internal', 500), { kind: 'unknown' }],
    ['an unknown refusal', refusal('sale.new_rule', 422), { kind: 'failed', code: 'sale.new_rule' }],
  ]
  it.each(table)('%s', (_name, error, outcome) => {
    expect(outcomeOf(error)).toEqual(outcome)
  })

  it('for want of a session leads to signing in and leaves nothing behind', async () => {
    const { grab, posts, seen, kind } = page()
    const tap = grab.tap()
    posts[0]!.refuse(refusal('auth.required', 401))
    await tap
    expect([kind(), seen.signIns, seen.saved]).toEqual([null, 1, null])
  })

  it('that contradicts the page reloads it and says why', async () => {
    const { grab, posts, seen, kind } = page()
    const tap = grab.tap()
    posts[0]!.refuse(refusal('sale.not_started', 409))
    await tap
    expect([kind(), seen.reloads, seen.notices]).toEqual([null, 1, ['sale.not_started']])
  })
})

describe('the order of the attempt', () => {
  const queued: Attempt = { kind: 'queued', key: 'k', since: 0, orderId: '70' }

  it('ends the attempt when it is decided', async () => {
    const { grab, seen, kind } = page(queued)
    await grab.orderChanged({ id: '70', status: 'queued' })
    expect(kind()).toBe('queued')
    await grab.orderChanged({ id: '70', status: 'unpaid' })
    expect([kind(), seen.reloads, seen.saved]).toEqual([null, 1, null])
  })

  it('leaves its reason when it failed', async () => {
    const { grab } = page(queued)
    await grab.orderChanged({ id: '70', status: 'failed', reason: 'sold_out' })
    expect(grab.attempt.value).toEqual({ kind: 'failed', code: 'order.sold_out' })
  })

  it('is given up when the server does not know it', async () => {
    const { grab, seen, kind } = page(queued)
    await grab.orderLost('71')
    expect(kind()).toBe('queued')
    await grab.orderLost('70')
    expect([kind(), seen.saved]).toEqual([null, null])
  })

  it('does not touch the attempt of another order', async () => {
    const { grab, kind } = page(queued)
    await grab.orderChanged({ id: '71', status: 'failed' })
    expect(kind()).toBe('queued')
  })
})
