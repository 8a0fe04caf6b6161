import { onScopeDispose, ref, type Ref } from 'vue'

/** useOnline follows the browser's idea of being online. */
export function useOnline(): Ref<boolean> {
  const online = ref(navigator.onLine)
  const update = () => (online.value = navigator.onLine)
  window.addEventListener('online', update)
  window.addEventListener('offline', update)
  onScopeDispose(() => {
    window.removeEventListener('online', update)
    window.removeEventListener('offline', update)
  })
  return online
}
