import { onScopeDispose } from 'vue'

const everyMs = 5_000

/** useRefresh loads again when the page comes back to the front, and every few seconds while something is under way. */
export function useRefresh(load: () => void, underWay: () => boolean) {
  const timer = setInterval(() => {
    if (!document.hidden && underWay()) load()
  }, everyMs)
  const onVisibility = () => {
    if (!document.hidden) load()
  }
  const onShow = (event: PageTransitionEvent) => {
    if (event.persisted) load()
  }
  document.addEventListener('visibilitychange', onVisibility)
  window.addEventListener('pageshow', onShow)
  onScopeDispose(() => {
    clearInterval(timer)
    document.removeEventListener('visibilitychange', onVisibility)
    window.removeEventListener('pageshow', onShow)
  })
}
