/** soldPercent is how much is gone, rounded down: 100 only when nothing is left. */
export function soldPercent(stockTotal: number, stockLeft: number): number {
  if (stockTotal <= 0) return 100
  const sold = Math.min(stockTotal, Math.max(0, stockTotal - stockLeft))
  return Math.floor((sold / stockTotal) * 100)
}
