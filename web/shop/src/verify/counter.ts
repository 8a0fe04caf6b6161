import { shallowRef } from 'vue'
import type { ApiError } from '../api/problem'
import type { Redemption } from '../api/types'
import { isCode, plainDigits } from '../format/digits'

/** Where a clerk is with the code in front of him. */
export type Step =
  | { kind: 'idle' }
  | { kind: 'looking'; code: string }
  | { kind: 'shown'; code: string; redemption: Redemption }
  | { kind: 'redeeming'; code: string; redemption: Redemption }
  /** The reply got lost, and looking the code up didn't help either. */
  | { kind: 'unknown'; code: string; redemption: Redemption }
  /** `found`: its own reply got lost, and looking it up shows that it has happened. */
  | { kind: 'done'; code: string; redemption: Redemption; found?: boolean }
  | { kind: 'undone'; redemption: Redemption }
  /** `reason` is a problem code, the server's or one of the client's own. `open`: it says nothing about the voucher. */
  | { kind: 'refused'; code: string; reason: string; open?: boolean; redeemedAt?: string; redemption?: Redemption }

/** What `Counter` needs from the page around it; its calls throw ApiErrors. */
export interface CounterPorts {
  look(code: string): Promise<Redemption>
  redeem(code: string): Promise<Redemption>
  undo(redemptionId: string): Promise<Redemption>
  /** Tells the clerk in one line what a problem code means. */
  notify(code: string): void
  /** Something has been redeemed or taken back. */
  changed(): void
  /** The server's time in milliseconds. */
  now(): number
}

/** HTTP status of a request that came too soon after others. */
const tooMany = 429

/** The server's time is known to about this. */
const clockErrorMs = 1_000

/**
 * Counter redeems one code after the other. A code is looked up first and redeemed only by `confirm`, so that a second
 * Enter of a scanner uses up nothing.
 */
export class Counter {
  readonly step = shallowRef<Step>({ kind: 'idle' })
  /** The redemption that is being taken back. */
  readonly undoing = shallowRef('')
  private round = 0
  /** When a redemption was sent whose reply never came, by code. */
  private readonly lost = new Map<string, number>()

  constructor(private readonly ports: CounterPorts) {}

  /** enter takes what was typed or scanned. It overtakes whatever is shown, but not a redemption under way. */
  async enter(text: string): Promise<void> {
    if (this.step.value.kind === 'redeeming') return this.ports.notify('client.redeeming')
    const code = plainDigits(text)
    const own = ++this.round
    if (!isCode(code)) {
      this.step.value = { kind: 'refused', code, reason: 'client.not_a_code' }
      return
    }
    this.step.value = { kind: 'looking', code }
    try {
      const redemption = await this.ports.look(code)
      if (own === this.round) this.show(code, redemption)
    } catch (thrown) {
      const { code: reason, status } = thrown as ApiError
      const open = status < 400 || status >= 500 || status === tooMany
      if (own === this.round) this.step.value = { kind: 'refused', code, reason, open }
    }
  }

  /** confirm redeems what is shown. */
  async confirm(): Promise<void> {
    const step = this.step.value
    if (step.kind !== 'shown') return
    const { code, redemption } = step
    const sentAt = this.ports.now()
    this.step.value = { kind: 'redeeming', code, redemption }
    try {
      this.done(code, await this.ports.redeem(code))
    } catch (thrown) {
      const error = thrown as ApiError
      if (error.status < 400 || error.status >= 500) {
        if (!this.lost.has(code)) this.lost.set(code, sentAt)
        return this.find(code, redemption)
      }
      if (error.code === 'redeem.used' && this.isOurs(code, error.redeemedAt)) return this.find(code, redemption)
      this.step.value = { kind: 'refused', code, reason: error.code, redeemedAt: error.redeemedAt, redemption }
    }
  }

  /** ask looks again: what became of a redemption whose reply got lost, or a code that couldn't be looked up. */
  async ask(): Promise<void> {
    const step = this.step.value
    if (step.kind === 'unknown') await this.find(step.code, step.redemption)
    else if (step.kind === 'refused') await this.enter(step.code)
  }

  /** undo takes a redemption back. Doing so twice does no harm, so a lost reply is answered by another try. */
  async undo(redemptionId: string): Promise<void> {
    if (this.undoing.value !== '') return
    this.undoing.value = redemptionId
    try {
      const redemption = await this.ports.undo(redemptionId)
      const step = this.step.value
      if (step.kind === 'done' && step.redemption.redemptionId === redemptionId) this.step.value = { kind: 'undone', redemption }
    } catch (thrown) {
      this.ports.notify((thrown as ApiError).code)
    } finally {
      this.undoing.value = ''
    }
    this.ports.changed()
  }

  /** find settles a redemption by looking the code up. */
  private async find(code: string, before: Redemption): Promise<void> {
    this.step.value = { kind: 'redeeming', code, redemption: before }
    try {
      const redemption = await this.ports.look(code)
      if (redemption.refusal === 'used' && this.isOurs(code, redemption.redeemedAt)) return this.done(code, redemption, true)
      if (redemption.redeemable) this.ports.notify('client.not_redeemed')
      this.show(code, redemption)
    } catch {
      this.step.value = { kind: 'unknown', code, redemption: before }
    }
  }

  /** isOurs reports whether a code was used up after a redemption of it left here unanswered. */
  private isOurs(code: string, redeemedAt: string | undefined): boolean {
    const sentAt = this.lost.get(code)
    return sentAt !== undefined && redeemedAt !== undefined && Date.parse(redeemedAt) >= sentAt - clockErrorMs
  }

  private show(code: string, redemption: Redemption) {
    const { redeemable, refusal, redeemedAt } = redemption
    this.step.value = redeemable
      ? { kind: 'shown', code, redemption }
      : { kind: 'refused', code, reason: `redeem.${refusal ?? 'not_found'}`, redeemedAt, redemption }
  }

  private done(code: string, redemption: Redemption, found = false) {
    this.lost.delete(code)
    this.step.value = { kind: 'done', code, redemption, found }
    this.ports.changed()
  }
}
