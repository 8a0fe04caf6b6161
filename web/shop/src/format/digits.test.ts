import { expect, it } from 'vitest'
import { groupDigits, isCode, plainDigits } from './digits'

it.each([
  ['', ''],
  ['1234', '1234'],
  ['12345', '1234 5'],
  ['123456789012', '1234 5678 9012'],
])('groups %j as %j', (digits, grouped) => {
  expect(groupDigits(digits)).toBe(grouped)
  expect(plainDigits(grouped)).toBe(digits)
})

it.each([
  ['1234 5678 9012', '123456789012'],
  ['1234-5678-9012', '123456789012'],
  ['1234–5678—9012', '123456789012'],
  [' 1234\u3000５６７８\t9012\r\n', '123456789012'],
  ['12a4', '12a4'],
])('reads %j as %j', (typed, digits) => {
  expect(plainDigits(typed)).toBe(digits)
})

it.each([
  ['123456789012', true],
  ['12345678901', false],
  ['1234567890123', false],
  ['12345678901x', false],
  ['', false],
])('%j can be a code: %s', (digits, can) => {
  expect(isCode(digits)).toBe(can)
})
