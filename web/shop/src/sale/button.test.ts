import { describe, expect, it } from 'vitest'
import type { Order, OrderStatus, Sale } from '../api/types'
import type { Attempt } from './attempt'
import { buttonView, type ButtonInput, type ButtonView } from './button'

const now = Date.parse('2026-03-01T04:00:00Z')
const at = (ms: number) => new Date(now + ms).toISOString()

function sale(over: Partial<Sale> = {}): Sale {
  return {
    id: '1',
    voucher: { id: '9', title: '50元代金券', subTitle: '', rules: '', payValue: 4750, faceValue: 5000 },
    shop: { id: '3', name: '巷口小馆', area: '拱墅', address: '', picture: '' },
    phase: 'live',
    stockTotal: 100,
    stockLeft: 34,
    beginsAt: at(-60_000),
    endsAt: at(3_600_000),
    limitPerUser: 1,
    serverTime: at(0),
    mine: [],
    ...over,
  }
}

const mine = (...statuses: OrderStatus[]) => statuses.map((status, i) => ({ orderId: `7${i}`, status }))

function view(over: Partial<ButtonInput> = {}): ButtonView {
  return buttonView({ online: true, sale: sale(), session: 'signedIn', attempt: null, followed: null, now, ...over })
}

const queued: Attempt = { kind: 'queued', key: 'k', since: now - 3_400, orderId: '70' }

/** The order 70 as it is followed, to be paid within `ms`. */
function followed(ms: number): Order {
  return {
    id: '70',
    saleId: '1',
    voucher: { id: '9', title: '50元代金券', shopId: '3' },
    shop: { id: '3', name: '巷口小馆' },
    status: 'unpaid',
    amount: 4750,
    admittedAt: at(-1_000),
    payBefore: at(ms),
    history: [],
  }
}

describe('one row of the table each', () => {
  const rows: [ButtonView['key'], Partial<ButtonInput>, Partial<ButtonView>][] = [
    ['loading', { sale: null }, { action: 'none', look: 'skeleton' }],
    ['login', { session: 'anonymous', sale: sale({ mine: undefined }) }, { action: 'login', look: 'outline' }],
    [
      'scheduled',
      { sale: sale({ phase: 'scheduled', beginsAt: at(60_001) }) },
      { action: 'none', look: 'grey', ms: 60_001 },
    ],
    ['soon', { sale: sale({ phase: 'scheduled', beginsAt: at(60_000) }) }, { action: 'none', look: 'soon', ms: 60_000 }],
    ['live', {}, { action: 'grab', look: 'solid', percent: 66 }],
    [
      'submitting',
      { attempt: { kind: 'submitting', key: 'k', since: now } },
      { action: 'none', look: 'grey', busy: true },
    ],
    ['queued', { attempt: queued }, { action: 'result', orderId: '70', ms: 3_400, busy: true }],
    [
      'unpaid',
      { sale: sale({ mine: mine('unpaid') }), followed: followed(1_794_000) },
      { action: 'pay', look: 'solid', orderId: '70', ms: 1_794_000 },
    ],
    [
      'closing',
      { sale: sale({ mine: mine('unpaid') }), followed: followed(0) },
      { action: 'pay', look: 'grey', busy: true, orderId: '70' },
    ],
    ['paid', { sale: sale({ mine: mine('paid') }) }, { action: 'order', look: 'green', orderId: '70' }],
    ['bought', { sale: sale({ mine: mine('used') }) }, { action: 'order', look: 'outline', orderId: '70' }],
    ['soldOut', { sale: sale({ phase: 'soldOut', stockLeft: 0 }) }, { action: 'none', look: 'grey' }],
    ['ended', { sale: sale({ phase: 'ended' }) }, { action: 'none', look: 'grey' }],
    ['paused', { sale: sale({ phase: 'paused' }) }, { action: 'none', look: 'grey' }],
    ['limited', { attempt: { kind: 'limited', until: now + 2_100 } }, { action: 'none', look: 'grey', ms: 2_100 }],
    [
      'failed',
      { attempt: { kind: 'failed', code: 'sale.busy' } },
      { action: 'grab', look: 'outline', reason: 'sale.busy' },
    ],
    ['unknown', { attempt: { kind: 'unknown', key: 'k', since: now } }, { action: 'resend', look: 'outline' }],
    ['expired', { sale: sale({ mine: mine('closed') }) }, { action: 'grab', look: 'outline' }],
    ['offline', { online: false }, { action: 'none', look: 'grey' }],
  ]
  it.each(rows)('%s', (key, input, expected) => {
    expect(view(input)).toMatchObject({ key, ...expected })
  })
})

describe('the deadline of an unpaid order', () => {
  it('is not guessed before the order itself has been read', () => {
    const input = { sale: sale({ mine: mine('unpaid') }) }
    expect(view(input)).toMatchObject({ key: 'unpaid', action: 'pay' })
    expect(view(input).ms).toBeUndefined()
  })

  it('is not taken from another order', () => {
    const other = { ...followed(-1), id: '71' }
    expect(view({ sale: sale({ mine: mine('unpaid') }), followed: other }).key).toBe('unpaid')
  })

  it('frees nothing by itself: the order is open until the server has closed it', () => {
    const late = followed(-5_000)
    expect(view({ sale: sale({ mine: mine('unpaid') }), followed: late }).key).toBe('closing')
    expect(view({ sale: sale({ mine: mine('closed') }), followed: late }).key).toBe('expired')
    expect(view({ sale: sale({ phase: 'soldOut', stockLeft: 0, mine: mine('closed') }), followed: late }).key).toBe('soldOut')
  })
})

describe('the server decides the phase', () => {
  it('a countdown at zero stays closed until the server says live', () => {
    const input = { sale: sale({ phase: 'scheduled', beginsAt: at(-5_000) }) }
    expect(view(input)).toMatchObject({ key: 'soon', action: 'none', ms: 0 })
  })

  it('a live sale past its end stays open until the server says ended', () => {
    expect(view({ sale: sale({ endsAt: at(-5_000) }) }).key).toBe('live')
  })
})

describe('who is signed in', () => {
  it('is not guessed while the session is unknown', () => {
    expect(view({ session: 'unknown', sale: sale({ mine: undefined }) }).key).toBe('loading')
  })

  it('shows in the sale itself when the session call is slower or failed', () => {
    expect(view({ session: 'unknown' }).key).toBe('live')
    expect(view({ session: 'anonymous' }).key).toBe('live')
  })

  it.each(['soldOut', 'ended', 'paused'] as const)('does not matter when the sale is %s', (phase) => {
    expect(view({ session: 'anonymous', sale: sale({ phase, mine: undefined }) }).key).toBe(phase)
  })
})

describe('the attempt gives way to what the server knows', () => {
  it.each([
    ['unpaid', 'unpaid'],
    ['paid', 'paid'],
    ['closed', 'expired'],
    ['failed', 'live'],
  ] as const)('queued, then the order is %s', (status, key) => {
    expect(view({ attempt: queued, sale: sale({ mine: mine(status) }) }).key).toBe(key)
  })

  it('stays queued while the server says so or does not list the order yet', () => {
    expect(view({ attempt: queued, sale: sale({ mine: mine('queued') }) })).toMatchObject({ key: 'queued', ms: 3_400 })
    expect(view({ attempt: queued, sale: sale({ phase: 'soldOut' }) }).key).toBe('queued')
  })

  it('a limit refusal leads to the order it named', () => {
    const attempt: Attempt = { kind: 'bought', orderId: '70' }
    expect(view({ attempt })).toMatchObject({ key: 'bought', orderId: '70' })
    expect(view({ attempt, sale: sale({ mine: mine('unpaid') }) }).key).toBe('unpaid')
  })

  it('a limit on requests ends by itself', () => {
    expect(view({ attempt: { kind: 'limited', until: now } }).key).toBe('live')
  })

  it('a failure keeps its reason when the sale has closed meanwhile', () => {
    const attempt: Attempt = { kind: 'failed', code: 'sale.sold_out' }
    expect(view({ attempt, sale: sale({ phase: 'soldOut' }) })).toMatchObject({
      key: 'soldOut',
      action: 'none',
      reason: 'sale.sold_out',
    })
  })
})

describe('orders the buyer holds', () => {
  it('a queued order on another device shows here too', () => {
    expect(view({ sale: sale({ mine: mine('queued') }) })).toMatchObject({ key: 'queued', orderId: '70' })
  })

  it('more may be bought below the limit, and the held one stays reachable', () => {
    expect(view({ sale: sale({ limitPerUser: 2, mine: mine('paid') }) })).toMatchObject({ key: 'live', alsoHeld: '70' })
  })

  it('one that waits for payment comes before buying another', () => {
    const some = sale({ limitPerUser: 2, mine: mine('unpaid') })
    expect(view({ sale: some })).toMatchObject({ key: 'unpaid', orderId: '70', more: true })
    expect(view({ sale: some, attempt: { kind: 'failed', code: 'sale.busy' } })).toMatchObject({
      key: 'unpaid',
      more: true,
      reason: 'sale.busy',
    })
    expect(view({ sale: some, attempt: { kind: 'limited', until: now + 1 } }).more).toBe(false)
    expect(view({ sale: sale({ mine: mine('unpaid') }) }).more).toBeUndefined()
  })

  it('at the limit the most urgent order is shown', () => {
    expect(view({ sale: sale({ limitPerUser: 2, mine: mine('paid', 'unpaid') }) })).toMatchObject({
      key: 'unpaid',
      orderId: '71',
    })
  })

  it.each(['soldOut', 'ended', 'paused'] as const)('a held order counts for more than %s', (phase) => {
    expect(view({ sale: sale({ phase, limitPerUser: 2, mine: mine('unpaid') }) }).key).toBe('unpaid')
  })

  it.each(['failed', 'refunded'] as const)('a %s order holds nothing', (status) => {
    expect(view({ sale: sale({ mine: mine(status) }) }).key).toBe('live')
  })

  it('an expired order offers no second try when the sale is over', () => {
    expect(view({ sale: sale({ phase: 'ended', mine: mine('closed') }) }).key).toBe('ended')
  })
})
