import { expect, it } from 'vitest'
import { clockText, exactTime, minutesText, moment } from './time'

it.each([
  [3_723_000, '01:02:03'],
  [3_722_001, '01:02:03'],
  [26 * 3_600_000, '26:00:00'],
  [10_000, '00:00:10'],
  [9_999, '00:10.0'],
  [9_750, '00:09.8'],
  [40, '00:00.1'],
  [0, '00:00.0'],
  [-500, '00:00.0'],
])('%i ms reads %s', (ms, text) => {
  expect(clockText(ms)).toBe(text)
})

it.each([
  [1_794_000, '29:54'],
  [1_000, '00:01'],
  [3_599_000, '59:59'],
  [3_599_001, '01:00:00'],
  [-1, '00:00'],
])('%i ms reads %s in minutes', (ms, text) => {
  expect(minutesText(ms)).toBe(text)
})

it('shows shop time wherever the reader is', () => {
  const noonInShanghai = '2026-03-01T04:00:00Z'
  const now = Date.parse('2026-03-01T15:59:00Z') // 23:59 the same day there
  expect(moment(noonInShanghai, now, 'zh-CN')).toBe('12:00')
  expect(moment(noonInShanghai, now + 120_000, 'zh-CN')).toContain('3月1日')
  expect(moment(noonInShanghai, now + 120_000, 'en')).toContain('Mar 1')
  expect(exactTime(noonInShanghai, 'zh-CN')).toBe('12:00:00')
})
