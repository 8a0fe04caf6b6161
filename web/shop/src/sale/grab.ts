import { shallowRef } from 'vue'
import type { ApiError } from '../api/problem'
import type { OrderStatus } from '../api/types'
import type { Attempt, AttemptStore } from './attempt'

/** After this long without a reply the buyer may ask again, with the same key. */
export const replyWithinMs = 3_000

const defaultRetryMs = 1_000

/** What `Grab` needs from the page around it. */
export interface GrabPorts {
  /** Sends the attempt; throws an ApiError. */
  post(key: string): Promise<{ orderId: string }>
  /** Loads the sale again and settles when it has. */
  reload(): Promise<void>
  /** Sends the buyer to sign in and back. */
  signIn(): void
  /** Tells the buyer in one line what a problem code means. */
  notify(code: string): void
  newKey(): string
  /** The server's time in milliseconds. */
  now(): number
  store: Pick<AttemptStore, 'load' | 'save'>
}

export type Outcome =
  | { kind: 'unknown' }
  | { kind: 'limited'; afterMs: number }
  | { kind: 'bought'; orderId: string }
  | { kind: 'failed'; code: string }
  | { kind: 'signIn' }
  /** No attempt took place: the sale isn't in the state the page showed. */
  | { kind: 'stale'; code: string }

/**
 * outcomeOf says what a failed POST means. Whatever leaves open whether an
 * order exists is `unknown`: only the same key may be sent again then.
 */
export function outcomeOf(error: ApiError): Outcome {
  switch (error.code) {
    case 'auth.required':
      return { kind: 'signIn' }
    case 'sale.limit_reached':
      return error.orderIds[0] ? { kind: 'bought', orderId: error.orderIds[0] } : { kind: 'stale', code: error.code }
    case 'sale.not_started':
    case 'sale.ended':
    case 'sale.paused':
    case 'sale.not_found':
      return { kind: 'stale', code: error.code }
    case 'sale.sold_out':
    case 'sale.busy':
    case 'auth.unknown':
      return { kind: 'failed', code: error.code }
    case 'sale.unknown':
      return { kind: 'unknown' }
  }
  if (error.status === 429) return { kind: 'limited', afterMs: error.retryAfterMs ?? defaultRetryMs }
  if (error.status >= 400 && error.status < 500) return { kind: 'failed', code: error.code }
  return { kind: 'unknown' }
}

/**
 * Grab owns the attempt of one buyer at one sale. `tap` is safe to call as often
 * as a finger can: the first call sets `submitting` before it returns, and no
 * other gets past that until the reply is there.
 */
export class Grab {
  readonly attempt = shallowRef<Attempt | null>(null)

  constructor(private readonly ports: GrabPorts) {
    this.attempt.value = ports.store.load()
  }

  /** tap starts an attempt, or asks again about one whose result is unknown. */
  async tap(): Promise<void> {
    const before = this.attempt.value
    if (before?.kind === 'submitting' || before?.kind === 'queued') return
    const key = before?.kind === 'unknown' ? before.key : this.ports.newKey()
    this.set({ kind: 'submitting', key, since: this.ports.now() })
    const late = setTimeout(() => this.set({ kind: 'unknown', key, since: this.ports.now() }), replyWithinMs)
    try {
      const { orderId } = await this.ports.post(key)
      // A reply that comes late still counts, unless a newer attempt has taken over.
      if (this.owns(key)) this.set({ kind: 'queued', key, orderId, since: this.ports.now() })
    } catch (error) {
      if (this.owns(key)) await this.settle(key, outcomeOf(error as ApiError))
    } finally {
      clearTimeout(late)
    }
  }

  /** orderChanged takes what became of the order this attempt made. */
  async orderChanged(order: { id: string; status: OrderStatus; reason?: string }): Promise<void> {
    const attempt = this.attempt.value
    if (attempt?.kind !== 'queued' || attempt.orderId !== order.id || order.status === 'queued') return
    this.set(order.status === 'failed' ? { kind: 'failed', code: `order.${order.reason || 'failed'}` } : null)
    await this.ports.reload()
  }

  /** orderLost is called when the server knows no such order: there is nothing to wait for. */
  async orderLost(orderId: string): Promise<void> {
    const attempt = this.attempt.value
    if (attempt?.kind === 'queued' && attempt.orderId === orderId) this.set(null)
    await this.ports.reload()
  }

  private async settle(key: string, outcome: Outcome): Promise<void> {
    switch (outcome.kind) {
      case 'unknown':
        return this.set({ kind: 'unknown', key, since: this.ports.now() })
      case 'limited':
        return this.set({ kind: 'limited', until: this.ports.now() + outcome.afterMs })
      case 'signIn':
        this.set(null)
        return this.ports.signIn()
      case 'bought':
      case 'failed':
        this.set(outcome)
        return this.ports.reload()
      case 'stale':
        await this.ports.reload()
        if (this.owns(key)) this.set(null)
        return this.ports.notify(outcome.code)
    }
  }

  private owns(key: string): boolean {
    const attempt = this.attempt.value
    return (attempt?.kind === 'submitting' || attempt?.kind === 'unknown') && attempt.key === key
  }

  private set(attempt: Attempt | null): void {
    this.attempt.value = attempt
    this.ports.store.save(attempt)
  }
}
