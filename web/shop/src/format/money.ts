/** Money is an integer number of fen (分) everywhere but on the screen. */

/** yuan writes fen as ¥47.50. */
export function yuan(fen: number): string {
  const sign = fen < 0 ? '-' : ''
  const abs = Math.abs(fen)
  return `${sign}¥${Math.floor(abs / 100)}.${String(abs % 100).padStart(2, '0')}`
}

/**
 * discountTenths is the price in tenths of the face value with one decimal, as
 * the Chinese 折 counts: 6.7, or 8. It is null when there is no discount, and
 * never rounds one away (9.99 stays 9.9) or up from nothing (0.01 is 0.1).
 */
export function discountTenths(payFen: number, faceFen: number): number | null {
  if (faceFen <= 0 || payFen < 0 || payFen >= faceFen) return null
  if (payFen === 0) return 0
  const tenths = Math.round((payFen / faceFen) * 100) / 10
  return Math.min(9.9, Math.max(0.1, tenths))
}

/** percentOff is the same discount for English readers: 33 for 33% off. */
export function percentOff(payFen: number, faceFen: number): number | null {
  if (faceFen <= 0 || payFen < 0 || payFen >= faceFen) return null
  if (payFen === 0) return 100
  return Math.min(99, Math.max(1, Math.round((1 - payFen / faceFen) * 100)))
}
