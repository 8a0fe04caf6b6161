import type { Me } from '../api/types'

/** mayRedeem reports whether somebody may redeem at all; for which shops, the server decides. */
export function mayRedeem(me: Me | null): boolean {
  return (me?.roles ?? []).some((role) => ['clerk', 'merchant', 'operator'].includes(role))
}
