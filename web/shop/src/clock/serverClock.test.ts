import { describe, expect, it } from 'vitest'
import { bestSample, offsetOf, ServerClock } from './serverClock'

/** A phone whose monotonic clock the test moves, and a server that answers from it. */
class World {
  local = 1_000
  /** Milliseconds on the way there and back, one entry for each reply; null loses the reply. */
  trips: ([number, number] | null)[] = []
  readonly clock: ServerClock

  constructor(wallAhead = 0) {
    this.clock = new ServerClock(
      () => this.local,
      () => this.trueNow() + wallAhead,
      () => this.ask(),
    )
  }

  trueNow(): number {
    return Date.parse('2026-03-01T04:00:00Z') + this.local
  }

  private async ask(): Promise<number> {
    const trip = this.trips.shift()
    if (!trip) throw new Error('lost')
    this.local += trip[0]
    const now = this.trueNow()
    this.local += trip[1]
    return now
  }
}

describe('a sample', () => {
  it('puts the server half a round trip back', () => {
    expect(offsetOf({ sentAt: 100, roundTrip: 40, serverMs: 5_120 })).toBe(5_000)
  })

  it('is best with the shortest round trip', () => {
    const quick = { sentAt: 0, roundTrip: 10, serverMs: 1 }
    expect(bestSample([{ ...quick, roundTrip: 90 }, quick, { ...quick, roundTrip: 50 }])).toBe(quick)
    expect(bestSample([])).toBeUndefined()
  })
})

describe('the clock', () => {
  it('takes the wall clock until the server has spoken', () => {
    const w = new World(5_000)
    expect(w.clock.now()).toBe(w.trueNow() + 5_000)
  })

  it('does not care that the wall clock is two hours off', async () => {
    const w = new World(2 * 3_600_000)
    w.trips = [
      [20, 20],
      [20, 20],
      [20, 20],
    ]
    expect(await w.clock.sync()).toBe(true)
    w.local += 60_000
    expect(w.clock.now()).toBe(w.trueNow())
  })

  it('believes the quickest of three replies', async () => {
    const w = new World()
    w.trips = [
      [300, 10], // 145 ms off if it were believed
      [10, 10],
      [10, 500],
    ]
    await w.clock.sync()
    expect(w.clock.now()).toBe(w.trueNow())
  })

  it('keeps what it knew when every reply is lost', async () => {
    const w = new World(9_000)
    w.trips = [[5, 5], null, null]
    await w.clock.sync()
    w.trips = [null, null, null]
    expect(await w.clock.sync()).toBe(false)
    expect(w.clock.now()).toBe(w.trueNow())
  })

  it('takes a hint from any reply, but not against a measurement', async () => {
    const w = new World(9_000)
    w.clock.hint(w.local, w.trueNow())
    expect(w.clock.now()).toBe(w.trueNow())
    w.trips = [
      [5, 5],
      [5, 5],
      [5, 5],
    ]
    await w.clock.sync()
    w.clock.hint(w.local, w.trueNow() + 700)
    expect(w.clock.now()).toBe(w.trueNow())
  })

  it('tells its listeners when it is set, until they leave', async () => {
    const w = new World(9_000)
    const heard: number[] = []
    const leave = w.clock.onSet(() => heard.push(w.clock.now() - w.trueNow()))
    w.clock.hint(w.local, w.trueNow())
    leave()
    w.trips = [[5, 5]]
    await w.clock.sync()
    expect(heard).toEqual([0])
  })

  it('ignores a hint that is no time', () => {
    const w = new World(9_000)
    w.clock.hint(w.local, Number.NaN)
    expect(w.clock.now()).toBe(w.trueNow() + 9_000)
  })
})
