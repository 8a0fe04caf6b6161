import { watch } from 'vue'
import { useSession } from '../session'
import type { useOrder } from './useOrder'

/** useSessionOf lets a page of an order and the session learn from each other: the stream opens before anyone is known to be signed in. */
export function useSessionOf({ problem, follow }: Pick<ReturnType<typeof useOrder>, 'problem' | 'follow'>) {
  const session = useSession()
  watch(
    () => session.state,
    (state) => state === 'signedIn' && problem.value?.status === 401 && follow(),
  )
  watch(
    () => problem.value?.status,
    (code) => code === 401 && session.state === 'signedIn' && session.lost(),
  )
}
