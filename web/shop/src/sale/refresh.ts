import type { Sale } from '../api/types'

/** Spreads the reload at the start of a sale, so that a full house doesn't ask in the same millisecond. */
const startJitterMs = 300
const scheduledEveryMs = 30_000
const liveEveryMs = 5_000
const restingEveryMs = 10_000
const disagreeEveryMs = 400
const listEveryMs = 20_000
const listDisagreeEveryMs = 1_500

type Timed = Pick<Sale, 'phase' | 'beginsAt' | 'endsAt'>

/**
 * nextReload is how long to wait before the sale is loaded again, or null when
 * nothing will change any more. `random` is in [0, 1). The page changes phase
 * only by such a reload; when a moment has passed and the server still says
 * otherwise, it is asked again soon.
 */
export function nextReload(sale: Timed, now: number, random: number): number | null {
  const edge = untilEdge(sale, now)
  if (edge === null) return null
  if (edge <= 0) return disagreeEveryMs + random * startJitterMs
  return Math.min(edge + random * startJitterMs, spread(pace(sale.phase), random))
}

/** nextListReload is the same for a page of many sales: the moments count as much, the pace in between is slower. */
export function nextListReload(sales: Timed[], now: number, random: number): number {
  const edges = sales.map((sale) => untilEdge(sale, now)).filter((edge) => edge !== null)
  const first = Math.min(...edges)
  if (first <= 0) return listDisagreeEveryMs + random * startJitterMs
  return Math.min(first + random * startJitterMs, spread(listEveryMs, random))
}

/** untilEdge is the time to the next moment at which the phase should change; null when none is left. */
function untilEdge({ phase, beginsAt, endsAt }: Timed, now: number): number | null {
  if (phase === 'ended') return null
  return Date.parse(phase === 'scheduled' ? beginsAt : endsAt) - now
}

function pace(phase: Sale['phase']): number {
  if (phase === 'scheduled') return scheduledEveryMs
  return phase === 'live' ? liveEveryMs : restingEveryMs
}

/** spread moves a delay by up to a fifth either way. */
function spread(ms: number, random: number): number {
  return ms * (0.8 + 0.4 * random)
}
