import type { MyOrder, Order, OrderStatus, Sale } from '../api/types'
import type { Attempt } from './attempt'
import { soldPercent } from './stock'

/**
 * The flash-sale button as one pure function. What is true about the sale comes
 * from the server (`phase`, `stockLeft`, `mine`); the client adds only its own
 * attempt, whether it is online, and how much time is left to a known moment.
 * A countdown that reaches zero opens nothing: the phase flips when the server says so.
 */
export type ButtonKey =
  | 'loading'
  | 'login'
  | 'scheduled'
  | 'soon'
  | 'live'
  | 'submitting'
  | 'queued'
  | 'unpaid'
  /** Not paid in time; the server hasn't closed the order yet. */
  | 'closing'
  | 'paid'
  | 'bought'
  | 'soldOut'
  | 'ended'
  | 'paused'
  | 'limited'
  | 'failed'
  | 'unknown'
  | 'expired'
  | 'offline'

export type ButtonAction = 'none' | 'login' | 'grab' | 'resend' | 'result' | 'pay' | 'order'
export type ButtonLook = 'skeleton' | 'solid' | 'outline' | 'grey' | 'green' | 'soon'

export interface ButtonView {
  key: ButtonKey
  action: ButtonAction
  look: ButtonLook
  /** A spinner shows that something is under way. */
  busy?: boolean
  /** The order that `result`, `pay` and `order` open: its place in the queue, its payment, itself. */
  orderId?: string
  /** Milliseconds left (scheduled, soon, limited; unpaid once known) or waited so far (queued). */
  ms?: number
  /** Share of the stock that is gone, 0..100 (live). */
  percent?: number
  /** Why the last attempt failed: a problem code (failed, unpaid, soldOut, ended, paused). */
  reason?: string
  /** An order of the buyer's that the button is not about: one is held, another may be bought. */
  alsoHeld?: string
  /** Next to the order that waits for payment, another may be bought. */
  more?: boolean
}

export interface ButtonInput {
  online: boolean
  /** Null until the first reply. */
  sale: Sale | null
  session: 'unknown' | 'anonymous' | 'signedIn'
  attempt: Attempt | null
  /** The order that is being followed: it tells the deadline, which the sale's list of orders doesn't. */
  followed: Order | null
  /** The server's time in milliseconds. */
  now: number
}

/** From here on "scheduled" reads "soon". */
export const soonMs = 60_000

/** Orders that occupy one of the buyer's places in the sale, most urgent first. */
const holding: OrderStatus[] = ['queued', 'unpaid', 'paid', 'used', 'refunding']

/** buttonView decides; the order of the questions is the priority of the states. */
export function buttonView(input: ButtonInput): ButtonView {
  const { sale, attempt, now } = input
  if (!input.online) return { key: 'offline', action: 'none', look: 'grey' }
  if (!sale) return { key: 'loading', action: 'none', look: 'skeleton' }
  if (input.session === 'unknown' && !sale.mine) return { key: 'loading', action: 'none', look: 'skeleton' }

  const mine = sale.mine ?? []
  const own = attempt && attemptView(attempt, mine, now)
  if (own) return own

  const held = holding.flatMap((status) => mine.filter((order) => order.status === status))
  const first = held[0]
  if (first && (held.length >= sale.limitPerUser || first.status === 'queued' || sale.phase !== 'live')) {
    return heldView(first, input)
  }
  const view = phaseView(input, sale, mine)
  if (!first) return view
  // What waits for payment comes first, even while another one may be bought.
  if (first.status === 'unpaid') return { ...heldView(first, input), more: view.action === 'grab', reason: view.reason }
  return { ...view, alsoHeld: first.orderId }
}

/** attemptView is the state of an attempt whose result the server's data doesn't hold yet. */
function attemptView(attempt: Attempt, mine: MyOrder[], now: number): ButtonView | null {
  switch (attempt.kind) {
    case 'submitting':
      return { key: 'submitting', action: 'none', look: 'grey', busy: true }
    case 'unknown':
      return { key: 'unknown', action: 'resend', look: 'outline' }
    case 'queued': {
      const known = mine.find((order) => order.orderId === attempt.orderId)
      if (known && known.status !== 'queued') return null
      return { ...queuedView(attempt.orderId), ms: Math.max(0, now - attempt.since) }
    }
    case 'bought':
      if (mine.some((order) => order.orderId === attempt.orderId)) return null
      return { key: 'bought', action: 'order', look: 'outline', orderId: attempt.orderId }
    default:
      return null
  }
}

function queuedView(orderId: string): ButtonView {
  return { key: 'queued', action: 'result', look: 'grey', busy: true, orderId }
}

function heldView({ orderId, status }: MyOrder, { followed, now }: ButtonInput): ButtonView {
  switch (status) {
    case 'queued':
      return queuedView(orderId)
    case 'unpaid': {
      const ms = followed?.id === orderId ? Date.parse(followed.payBefore) - now : undefined
      if (ms !== undefined && ms <= 0) return { key: 'closing', action: 'pay', look: 'grey', busy: true, orderId }
      return { key: 'unpaid', action: 'pay', look: 'solid', orderId, ms }
    }
    case 'paid':
      return { key: 'paid', action: 'order', look: 'green', orderId }
    default:
      return { key: 'bought', action: 'order', look: 'outline', orderId }
  }
}

function phaseView({ attempt, session, now }: ButtonInput, sale: Sale, mine: MyOrder[]): ButtonView {
  if (sale.phase === 'soldOut' || sale.phase === 'ended' || sale.phase === 'paused') {
    const reason = attempt?.kind === 'failed' ? attempt.code : undefined
    return { key: sale.phase, action: 'none', look: 'grey', reason }
  }
  if (session === 'anonymous' && !sale.mine) return { key: 'login', action: 'login', look: 'outline' }
  if (sale.phase === 'scheduled') {
    const ms = Math.max(0, Date.parse(sale.beginsAt) - now)
    return ms > soonMs
      ? { key: 'scheduled', action: 'none', look: 'grey', ms }
      : { key: 'soon', action: 'none', look: 'soon', ms }
  }
  if (attempt?.kind === 'limited' && attempt.until > now) {
    return { key: 'limited', action: 'none', look: 'grey', ms: attempt.until - now }
  }
  if (attempt?.kind === 'failed') {
    return { key: 'failed', action: 'grab', look: 'outline', reason: attempt.code }
  }
  if (mine.some((order) => order.status === 'closed')) return { key: 'expired', action: 'grab', look: 'outline' }
  return { key: 'live', action: 'grab', look: 'solid', percent: soldPercent(sale.stockTotal, sale.stockLeft) }
}
