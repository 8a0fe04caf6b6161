import { shallowRef } from 'vue'
import type { ApiError } from '../api/problem'
import type { Order } from '../api/types'

/** Where a buyer's attempt to pay stands, as far as this tab knows. */
export type Paying =
  | { kind: 'opening' }
  /** The reply got lost. Asking again goes on with the same attempt: nobody pays twice. */
  | { kind: 'unanswered' }
  /** The buyer was at the cashier; what he did there isn't known. Since when it has been asked for. */
  | { kind: 'away'; since: number }
  | { kind: 'refused'; code: string }

/** What `Payment` needs from the page around it. */
export interface PaymentPorts {
  /** Begins to pay, or goes on; throws an ApiError. */
  post(): Promise<{ payUrl: string }>
  /** Leaves for the cashier. */
  leave(url: string): void
  /** Looks at the order again. */
  reload(): Promise<void>
  /** Sends the buyer to sign in and back. */
  signIn(): void
  /** The server's time in milliseconds. */
  now(): number
  memory: Pick<CashierMemory, 'is' | 'set'>
}

/** Payment owns a tab's attempts to pay one order. The money's own state is the server's, in the order. */
export class Payment {
  readonly state = shallowRef<Paying | null>(null)

  constructor(private readonly ports: PaymentPorts) {
    this.returned()
  }

  /** tap opens the cashier; while that is under way more taps do nothing. */
  async tap(): Promise<void> {
    if (this.state.value?.kind === 'opening') return
    this.state.value = { kind: 'opening' }
    try {
      const { payUrl } = await this.ports.post()
      this.ports.memory.set(true)
      this.ports.leave(payUrl)
    } catch (thrown) {
      const error = thrown as ApiError
      if (error.status === 401) {
        this.state.value = null
        return this.ports.signIn()
      }
      // 4xx is a decision; anything else leaves open whether the attempt was made.
      const decided = error.status >= 400 && error.status < 500
      this.state.value = decided ? { kind: 'refused', code: error.code } : { kind: 'unanswered' }
      await this.ports.reload()
    }
  }

  /** returned is called whenever the page is there (again): on loading, and when the browser kept it while he was away. */
  returned(): void {
    this.state.value = this.ports.memory.is() ? { kind: 'away', since: this.ports.now() } : null
  }

  /** orderChanged takes the order as the server knows it; an outcome ends the asking. */
  orderChanged(order: Order): void {
    if (this.state.value?.kind !== 'away' || !outcomeKnown(order)) return
    this.state.value = null
    this.ports.memory.set(false)
  }
}

/** outcomeKnown reports whether the order tells what became of the last attempt to pay it. */
function outcomeKnown({ status, payments }: Order): boolean {
  const last = payments?.at(-1)
  return (status !== 'queued' && status !== 'unpaid') || last?.status === 'failed' || last?.status === 'closed'
}

/** Remembers over reloads that the buyer has been sent to the cashier with an order. */
export class CashierMemory {
  constructor(
    private readonly storage: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'> | null,
    private readonly orderId: string,
  ) {}

  private get name(): string {
    return `tandian.cashier.${this.orderId}`
  }

  is(): boolean {
    return this.storage?.getItem(this.name) != null
  }

  set(away: boolean): void {
    try {
      if (away) this.storage?.setItem(this.name, '1')
      else this.storage?.removeItem(this.name)
    } catch {
      // Storage is full: after a reload the order is followed all the same.
    }
  }
}

export type PayKey =
  | 'loading'
  | 'queued'
  | 'ready'
  | 'opening'
  | 'unanswered'
  | 'refused'
  | 'confirming'
  | 'unconfirmed'
  /** The deadline has passed, and the server hasn't said yet what that means. */
  | 'over'
  | 'closed'
  | 'settled'

export interface PayView {
  key: PayKey
  /** Milliseconds left to pay. */
  ms?: number
  /** A problem code (refused). */
  reason?: string
  /** The last attempt failed, and nothing was taken (ready). */
  failed?: boolean
}

/** After this long without an outcome the page says so, and goes on asking. */
export const confirmForMs = 10_000

/** payView decides what the page shows. Like a sale, an order changes only when the server says so. */
export function payView(order: Order | null, paying: Paying | null, now: number): PayView {
  if (!order) return { key: 'loading' }
  if (order.status === 'queued') return { key: 'queued' }
  // Money that came too late is on its way back: the order tells.
  if (order.status === 'closed') return { key: order.refund ? 'settled' : 'closed' }
  if (order.status !== 'unpaid') return { key: 'settled' }
  const ms = Date.parse(order.payBefore) - now
  if (ms <= 0) return { key: 'over' }
  switch (paying?.kind) {
    case 'away':
      return { key: now - paying.since < confirmForMs ? 'confirming' : 'unconfirmed', ms }
    case 'refused':
      return { key: 'refused', ms, reason: paying.code }
    case undefined:
      return { key: 'ready', ms, failed: order.payments?.at(-1)?.status === 'failed' }
    default:
      return { key: paying!.kind, ms }
  }
}

/** cashierAddress has the sandbox's own cashier speak the reader's language; the address of another server is signed, perhaps. */
export function cashierAddress(payUrl: string, language: string): string {
  return payUrl.startsWith('/') ? `${payUrl}&lang=${language === 'en' ? 'en' : 'zh'}` : payUrl
}

const askDelaysMs = [500, 1_000, 2_000, 4_000]

/** keepAsking asks at once and again, slower and slower, until it is stopped by the function it returns. */
export function keepAsking(ask: () => Promise<void>): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined
  let stopped = false
  async function turn(asked: number) {
    await ask()
    if (stopped) return
    timer = setTimeout(() => void turn(asked + 1), askDelaysMs[Math.min(asked, askDelaysMs.length - 1)])
  }
  void turn(0)
  return () => {
    stopped = true
    clearTimeout(timer)
  }
}
