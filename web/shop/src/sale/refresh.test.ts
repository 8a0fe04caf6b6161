import { expect, it } from 'vitest'
import { nextReload } from './refresh'

const now = Date.parse('2026-03-01T04:00:00Z')
const at = (ms: number) => new Date(now + ms).toISOString()

it.each([
  ['scheduled', 4_000, 9_000, 0, 4_000],
  ['scheduled', 4_000, 9_000, 0.5, 4_150],
  ['scheduled', 4_000, 9_000, 0.999, 4_299.7],
  ['scheduled', 3_600_000, 7_200_000, 0.5, 30_000],
  // The moment has passed here but the server still says scheduled: ask again soon, flip nothing.
  ['scheduled', -20, 9_000, 0.5, 550],
  ['live', -60_000, 3_600_000, 0.5, 5_000],
  ['live', -60_000, 3_600_000, 0, 4_000],
  ['live', -60_000, 1_000, 0.5, 1_150],
  ['live', -60_000, -1, 0, 400],
  ['soldOut', -60_000, 3_600_000, 0.5, 10_000],
  ['paused', -60_000, 3_600_000, 0.5, 10_000],
  ['ended', -60_000, -1, 0.5, null],
] as const)('%s, begins in %i, ends in %i, random %d: reload in %d', (phase, begins, ends, random, wait) => {
  const got = nextReload({ phase, beginsAt: at(begins), endsAt: at(ends) }, now, random)
  if (wait === null) expect(got).toBeNull()
  else expect(got).toBeCloseTo(wait, 3)
})
