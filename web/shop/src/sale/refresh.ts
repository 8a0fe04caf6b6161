import type { Sale } from '../api/types'

/** Spreads the reload at the start of a sale, so that a full house doesn't ask in the same millisecond. */
const startJitterMs = 300
const scheduledEveryMs = 30_000
const liveEveryMs = 5_000
const restingEveryMs = 10_000
const disagreeEveryMs = 400

/**
 * nextReload is how long to wait before the sale is loaded again, or null when
 * nothing will change any more. `random` is in [0, 1). The page changes phase
 * only by such a reload; when a moment has passed and the server still says
 * otherwise, it is asked again soon.
 */
export function nextReload(sale: Pick<Sale, 'phase' | 'beginsAt' | 'endsAt'>, now: number, random: number): number | null {
  if (sale.phase === 'ended') return null
  const edge = Date.parse(sale.phase === 'scheduled' ? sale.beginsAt : sale.endsAt) - now
  if (edge <= 0) return disagreeEveryMs + random * startJitterMs
  return Math.min(edge + random * startJitterMs, spread(pace(sale.phase), random))
}

function pace(phase: Sale['phase']): number {
  if (phase === 'scheduled') return scheduledEveryMs
  return phase === 'live' ? liveEveryMs : restingEveryMs
}

/** spread moves a delay by up to a fifth either way. */
export function spread(ms: number, random: number): number {
  return ms * (0.8 + 0.4 * random)
}
