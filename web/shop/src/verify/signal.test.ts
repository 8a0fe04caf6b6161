import { expect, it } from 'vitest'
import type { Step } from './counter'
import { signalOf } from './signal'

it.each([
  ['idle', null],
  ['looking', null],
  ['shown', 'ready'],
  ['redeeming', null],
  ['done', 'good'],
  ['undone', 'good'],
  ['refused', 'bad'],
  ['unknown', 'bad'],
])('%s sounds %s', (kind, signal) => {
  expect(signalOf({ kind } as Step)).toBe(signal)
})
