import { expect, it } from 'vitest'
import { soldPercent } from './stock'

it.each([
  [100, 34, 66],
  [100, 100, 0],
  [1000, 1, 99],
  [100, 0, 100],
  [3, 1, 66],
  [100, 120, 0],
  [100, -5, 100],
  [0, 0, 100],
])('of %i with %i left, %i%% is sold', (total, left, percent) => {
  expect(soldPercent(total, left)).toBe(percent)
})
