import { expect, it } from 'vitest'
import { discountTenths, percentOff, yuan } from './money'

it.each([
  [0, '¥0.00'],
  [5, '¥0.05'],
  [4750, '¥47.50'],
  [100, '¥1.00'],
  [123456789, '¥1234567.89'],
  [-250, '-¥2.50'],
])('writes %i fen as %s', (fen, text) => {
  expect(yuan(fen)).toBe(text)
})

it.each([
  // pay, face, 折, % off
  [6667, 10000, 6.7, 33],
  [8000, 10000, 8, 20],
  [4750, 5000, 9.5, 5],
  [9999, 10000, 9.9, 1],
  [1, 10000, 0.1, 99],
  [0, 10000, 0, 100],
  [10000, 10000, null, null],
  [12000, 10000, null, null],
  [100, 0, null, null],
])('%i of %i is %s折 and %s%% off', (pay, face, tenths, percent) => {
  expect(discountTenths(pay, face)).toBe(tenths)
  expect(percentOff(pay, face)).toBe(percent)
})

it('prints one decimal and drops a trailing zero', () => {
  expect(String(discountTenths(6666, 9999))).toBe('6.7')
  expect(String(discountTenths(8000, 10000))).toBe('8')
})
