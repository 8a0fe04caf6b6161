/** tabStorage is what this tab keeps over a reload; null where the browser forbids any. */
export function tabStorage(): Storage | null {
  try {
    return sessionStorage
  } catch {
    return null
  }
}
