import { expect, it } from 'vitest'
import { nextListReload, nextReload } from './refresh'

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

it.each([
  ['the first moment', [['scheduled', 4_000], ['live', 9_000]], 4_150],
  ['a slow pace when all is far', [['scheduled', 90_000], ['soldOut', 90_000]], 20_000],
  ['a moment that has passed', [['scheduled', -10], ['live', 9_000]], 1_650],
  ['nothing but ended sales', [['ended', -10]], 20_000],
  ['an empty list', [], 20_000],
] as const)('a list follows %s', (_name, sales, wait) => {
  const list = sales.map(([phase, edge]) => ({ phase, beginsAt: at(edge), endsAt: at(edge) }))
  expect(nextListReload(list, now, 0.5)).toBe(wait)
})
