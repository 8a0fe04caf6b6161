import { describe, expect, it } from 'vitest'
import { ApiError } from '../api/problem'
import type { Redemption } from '../api/types'
import { Counter } from './counter'

const now = Date.parse('2026-03-01T04:00:00Z')
const at = (ms: number) => new Date(now + ms).toISOString()
const code = '123456789012'

function redemption(over: Partial<Redemption> = {}): Redemption {
  return {
    redemptionId: '70',
    orderId: '70',
    status: 'paid',
    redeemable: true,
    voucher: { title: '50元代金券', faceValue: 5000 },
    shop: { id: '3', name: '巷口小馆' },
    buyer: '尾号 0001',
    validUntil: at(86_400_000),
    ...over,
  }
}
const used = (ms: number) => redemption({ status: 'used', redeemable: false, refusal: 'used', redeemedAt: at(ms), undoBefore: at(ms + 60_000) })

type Answer = Redemption | ApiError | Promise<Redemption>

/** A counter whose server gives the answers in turn; the last one repeats. */
function counter(answers: { look?: Answer[]; redeem?: Answer[]; undo?: Answer[] } = {}) {
  const seen = { looked: [] as string[], redeemed: [] as string[], undone: [] as string[], told: [] as string[], changes: 0 }
  async function next(list: Answer[] = [redemption()]) {
    const answer = list.length > 1 ? list.shift()! : list[0]!
    if (answer instanceof ApiError) throw answer
    return answer
  }
  const c = new Counter({
    look: (digits) => (seen.looked.push(digits), next(answers.look)),
    redeem: (digits) => (seen.redeemed.push(digits), next(answers.redeem)),
    undo: (id) => (seen.undone.push(id), next(answers.undo)),
    notify: (problem) => void seen.told.push(problem),
    changed: () => void seen.changes++,
    now: () => now,
  })
  return { c, seen }
}

describe('a code that comes in', () => {
  it.each(['1234 5678 9012', '1234-5678-9012', '123456789012\n'])('is shown before anything happens: %j', async (text) => {
    const { c, seen } = counter()
    await c.enter(text)
    await c.enter(text)
    expect(c.step.value).toMatchObject({ kind: 'shown', code, redemption: { buyer: '尾号 0001' } })
    expect(seen.looked).toEqual([code, code])
    expect(seen.redeemed).toEqual([])
  })

  it.each(['', '12345678901', '1234567890123', 'https://x.test'])('isn\'t asked for when it can\'t be one: %j', async (text) => {
    const { c, seen } = counter()
    await c.enter(text)
    expect(c.step.value).toMatchObject({ kind: 'refused', reason: 'client.not_a_code' })
    expect(seen.looked).toEqual([])
  })

  it.each([
    [used(-60_000), 'redeem.used'],
    [redemption({ redeemable: false, refusal: 'expired' }), 'redeem.expired'],
    [redemption({ redeemable: false, refusal: 'refunded', status: 'refunding' }), 'redeem.refunded'],
    [redemption({ redeemable: false, refusal: 'other_shop' }), 'redeem.other_shop'],
    [new ApiError('redeem.not_found', 404), 'redeem.not_found'],
    [new ApiError('auth.forbidden', 403), 'auth.forbidden'],
    [new ApiError('client.network', 0), 'client.network'],
  ])('can be refused: %#', async (answer, reason) => {
    const { c } = counter({ look: [answer] })
    await c.enter(code)
    expect(c.step.value).toMatchObject({ kind: 'refused', reason })
    await c.confirm()
    expect(c.step.value.kind).toBe('refused')
  })

  it('is looked up again after the server has said nothing', async () => {
    const { c, seen } = counter({ look: [new ApiError('client.timeout', 0), redemption()] })
    await c.enter(code)
    expect(c.step.value).toMatchObject({ kind: 'refused', open: true })
    await c.ask()
    expect(c.step.value).toMatchObject({ kind: 'shown', code })
    expect(seen.looked).toEqual([code, code])
  })

  it('overtakes the one before, whose answer comes later', async () => {
    let answerFirst = (_: Redemption) => {}
    const first = new Promise<Redemption>((resolve) => (answerFirst = resolve))
    const { c } = counter({ look: [first, redemption({ redemptionId: '71' })] })
    const slow = c.enter('999999999999')
    await c.enter(code)
    answerFirst(redemption())
    await slow
    expect(c.step.value).toMatchObject({ kind: 'shown', code, redemption: { redemptionId: '71' } })
  })
})

describe('redeeming', () => {
  it('takes one request for two clicks, and no new code meanwhile', async () => {
    let answer = (_: Redemption) => {}
    const { c, seen } = counter({ redeem: [new Promise<Redemption>((resolve) => (answer = resolve))] })
    await c.enter(code)
    const clicks = [c.confirm(), c.confirm(), c.enter('999999999999')]
    expect(c.step.value.kind).toBe('redeeming')
    answer(used(0))
    await Promise.all(clicks)
    expect(c.step.value).toMatchObject({ kind: 'done', code, found: false })
    expect(seen).toMatchObject({ redeemed: [code], looked: [code], told: ['client.redeeming'], changes: 1 })
  })

  it.each(['redeem.used', 'redeem.expired', 'redeem.refunded', 'redeem.other_shop'])('can be refused: %s', async (reason) => {
    const { c, seen } = counter({ redeem: [new ApiError(reason, 409, undefined, undefined, [], at(-5_000))] })
    await c.enter(code)
    await c.confirm()
    expect(c.step.value).toMatchObject({ kind: 'refused', reason, redeemedAt: at(-5_000) })
    expect(seen.changes).toBe(0)
  })
})

describe('a lost reply', () => {
  const lost = new ApiError('client.network', 0)

  it.each([
    ['it happened', used(200), { kind: 'done', found: true }, [], 1],
    ['it did not', redemption(), { kind: 'shown' }, ['client.not_redeemed'], 0],
    ['somebody else was first', used(-5_000), { kind: 'refused', reason: 'redeem.used', redeemedAt: at(-5_000) }, [], 0],
    ['nobody knows', lost, { kind: 'unknown' }, [], 0],
  ])('is looked up: %s', async (_what, answer, step, told, changes) => {
    const { c, seen } = counter({ look: [redemption(), answer], redeem: [lost] })
    await c.enter(code)
    await c.confirm()
    expect(c.step.value).toMatchObject(step)
    expect(seen).toMatchObject({ redeemed: [code], told, changes })
  })

  it('is asked for again until it is known', async () => {
    const { c } = counter({ look: [redemption(), lost, lost, used(0)], redeem: [new ApiError('order.unknown', 503)] })
    await c.enter(code)
    await c.confirm()
    await c.ask()
    expect(c.step.value.kind).toBe('unknown')
    await c.ask()
    expect(c.step.value).toMatchObject({ kind: 'done', found: true })
  })

  it('that arrived late after all is no refusal of the second try', async () => {
    const { c } = counter({
      look: [redemption(), redemption(), used(300)],
      redeem: [lost, new ApiError('redeem.used', 409, undefined, undefined, [], at(300))],
    })
    await c.enter(code)
    await c.confirm()
    expect(c.step.value.kind).toBe('shown')
    await c.confirm()
    expect(c.step.value).toMatchObject({ kind: 'done', found: true })
  })
})

describe('taking it back', () => {
  async function redeemed(undo: Answer) {
    const world = counter({ redeem: [used(0)], undo: [undo] })
    await world.c.enter(code)
    await world.c.confirm()
    return world
  }

  it('shows that the voucher is good again', async () => {
    const { c, seen } = await redeemed(redemption())
    await c.undo('70')
    expect(c.step.value).toMatchObject({ kind: 'undone' })
    expect(seen).toMatchObject({ undone: ['70'], changes: 2 })
  })

  it('takes one request for two clicks', async () => {
    const { c, seen } = await redeemed(redemption())
    const clicks = [c.undo('70'), c.undo('70')]
    expect(c.undoing.value).toBe('70')
    await Promise.all(clicks)
    expect(seen.undone).toEqual(['70'])
    expect(c.undoing.value).toBe('')
  })

  it('of another one leaves what is shown', async () => {
    const { c } = await redeemed(redemption({ redemptionId: '71' }))
    await c.undo('71')
    expect(c.step.value.kind).toBe('done')
  })

  it.each([new ApiError('redeem.too_late', 409), new ApiError('client.network', 0)])('may fail: %o', async (answer) => {
    const { c, seen } = await redeemed(answer)
    await c.undo('70')
    expect(c.step.value.kind).toBe('done')
    expect(seen.told).toEqual([answer.code])
  })
})
