import { onActivated, onDeactivated, onScopeDispose } from 'vue'

const everyMs = 5_000

/**
 * useRefresh loads again when the page comes back to the front or the network is back, and every few seconds while
 * something is under way. A page that is kept while another is shown does nothing.
 */
export function useRefresh(load: () => void, underWay: () => boolean) {
  let shown = true
  const timer = setInterval(() => {
    if (shown && !document.hidden && underWay()) load()
  }, everyMs)
  const onVisibility = () => {
    if (shown && !document.hidden) load()
  }
  const onShow = (event: PageTransitionEvent) => {
    if (event.persisted) onVisibility()
  }
  onDeactivated(() => (shown = false))
  onActivated(() => {
    if (!shown) load()
    shown = true
  })
  document.addEventListener('visibilitychange', onVisibility)
  window.addEventListener('online', onVisibility)
  window.addEventListener('pageshow', onShow)
  onScopeDispose(() => {
    clearInterval(timer)
    document.removeEventListener('visibilitychange', onVisibility)
    window.removeEventListener('online', onVisibility)
    window.removeEventListener('pageshow', onShow)
  })
}
