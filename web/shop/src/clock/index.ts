import { onScopeDispose, ref, type Ref } from 'vue'
import { api, unwrap } from '../api/client'
import { ServerClock } from './serverClock'

const resyncEveryMs = 60_000

export const clock = new ServerClock(
  () => performance.now(),
  () => Date.now(),
  async () => Date.parse((await unwrap(api.GET('/api/v1/time'))).now),
)

/** keepClock syncs now, every minute, and whenever the page comes back to the front. */
export function keepClock(): void {
  void clock.sync()
  setInterval(() => void clock.sync(), resyncEveryMs)
  document.addEventListener('visibilitychange', () => {
    // The monotonic clock may have stood still while the phone slept.
    if (document.visibilityState === 'visible') void clock.sync()
  })
}

/**
 * useNow is the server's time as a ref that moves at each full second, or at
 * each tenth while `tenths` says so, and when the clock is set. `refresh` moves
 * it at once, for what starts between two seconds.
 */
export function useNow(tenths: () => boolean = () => false): { now: Ref<number>; refresh: () => void } {
  const now = ref(clock.now())
  let timer = 0
  function refresh() {
    clearTimeout(timer)
    now.value = clock.now()
    const step = tenths() ? 100 : 1000
    timer = window.setTimeout(refresh, step - (now.value % step))
  }
  refresh()
  const forget = clock.onSet(refresh)
  onScopeDispose(() => {
    clearTimeout(timer)
    forget()
  })
  return { now, refresh }
}
