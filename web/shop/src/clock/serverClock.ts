/**
 * The phone's wall clock may be hours off and may be moved while a page is
 * open. So the page counts on the monotonic clock (`performance.now()`) and
 * learns its distance from the server's clock by asking.
 */

/** One answer of the server about its time; local instants are monotonic milliseconds. */
export interface ClockSample {
  sentAt: number
  roundTrip: number
  serverMs: number
}

/** offsetOf is server − local, taking the reply to have left half a round trip ago. */
export function offsetOf(sample: ClockSample): number {
  return sample.serverMs - (sample.sentAt + sample.roundTrip / 2)
}

/** bestSample is the one with the shortest round trip: the least room for error. */
export function bestSample(samples: ClockSample[]): ClockSample | undefined {
  return samples.reduce<ClockSample | undefined>(
    (best, sample) => (best && best.roundTrip <= sample.roundTrip ? best : sample),
    undefined,
  )
}

const samplesPerSync = 3

export class ServerClock {
  private offset: number | undefined
  private asked = false
  private running: Promise<boolean> | undefined
  private readonly listeners = new Set<() => void>()

  constructor(
    /** Monotonic milliseconds. */
    private readonly local: () => number,
    /** The phone's own idea of the time, used until the server has spoken. */
    private readonly wall: () => number,
    /** Asks the server for its time in milliseconds since the epoch. */
    private readonly ask: () => Promise<number>,
  ) {}

  /** now is the server's time in milliseconds since the epoch. */
  now(): number {
    return this.offset === undefined ? this.wall() : this.local() + this.offset
  }

  /** monotonic is the local reading that `hint` wants for the moment a request left. */
  monotonic(): number {
    return this.local()
  }

  /** hint takes the time a reply carried. It counts only until the first sync. */
  hint(sentAt: number, serverMs: number): void {
    if (this.asked || !Number.isFinite(serverMs)) return
    this.set(offsetOf({ sentAt, roundTrip: this.local() - sentAt, serverMs }))
  }

  /** onSet calls back whenever the clock has been set; the returned function ends that. */
  onSet(listener: () => void): () => void {
    this.listeners.add(listener)
    return () => this.listeners.delete(listener)
  }

  /** sync asks three times and reports whether at least one answer came; without one the old offset stays. */
  sync(): Promise<boolean> {
    this.running ??= this.measure().finally(() => (this.running = undefined))
    return this.running
  }

  private async measure(): Promise<boolean> {
    const samples: ClockSample[] = []
    for (let i = 0; i < samplesPerSync; i++) {
      const sentAt = this.local()
      try {
        const serverMs = await this.ask()
        samples.push({ sentAt, roundTrip: this.local() - sentAt, serverMs })
      } catch {
        // The next sync tries again; one lost sample of three does no harm.
      }
    }
    const best = bestSample(samples)
    if (!best) return false
    this.asked = true
    this.set(offsetOf(best))
    return true
  }

  private set(offset: number) {
    this.offset = offset
    for (const listener of this.listeners) listener()
  }
}
