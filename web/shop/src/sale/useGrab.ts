import { computed, onScopeDispose, shallowRef, watch, type ComputedRef } from 'vue'
import { showToast } from 'vant'
import { useRouter } from 'vue-router'
import { api, unwrap } from '../api/client'
import type { Order, Sale } from '../api/types'
import { clock, useNow } from '../clock'
import { lastTenths } from '../format/time'
import { useText } from '../i18n/useText'
import { useOnline } from '../online'
import { followOrder } from '../order/browserWatch'
import type { WatchEvents } from '../order/watch'
import { useSession } from '../session'
import { tabStorage } from '../storage'
import { AttemptStore, newKey } from './attempt'
import { buttonView, type ButtonKey, type ButtonView } from './button'
import { Grab } from './grab'
import type { useSale } from './useSale'

/** While the button shows one of these, its order is followed. */
const pending: ButtonKey[] = ['queued', 'unpaid', 'closing']

/** useGrab joins the sale, the session, the clock and the buyer's attempt into the button. */
export function useGrab(id: string, { sale, load, apply }: ReturnType<typeof useSale>) {
  const session = useSession()
  const router = useRouter()
  const online = useOnline()
  const { reason } = useText()
  const grab = shallowRef<Grab | null>(null)
  const followed = shallowRef<Order | null>(null)
  const { now, refresh } = useNow(() => closeToStart(sale.value))

  function signIn() {
    void router.push({ path: '/login', query: { to: router.currentRoute.value.fullPath } })
  }

  // An attempt belongs to one buyer: who signs in as someone else starts afresh.
  watch(
    () => session.userId,
    (userId, before) => {
      grab.value = userId ? newGrab(userId) : null
      if (before) void load()
    },
    { immediate: true },
  )

  function newGrab(userId: string): Grab {
    const storage = tabStorage()
    return new Grab({
      post: (key) =>
        unwrap(
          api.POST('/api/v1/sales/{id}/orders', { params: { path: { id }, header: { 'Idempotency-Key': key } } }),
        ),
      reload: load,
      signIn: () => {
        session.lost()
        signIn()
      },
      notify: (code) => showToast(reason(code)),
      newKey,
      now: () => clock.now(),
      store: storage ? new AttemptStore(storage, userId, id) : { load: () => null, save: () => {} },
    })
  }

  // A wait that starts now is not counted from the last full second.
  watch([() => grab.value?.attempt.value, sale, followed], refresh, { flush: 'sync' })

  const view: ComputedRef<ButtonView> = computed(() =>
    buttonView({
      online: online.value,
      sale: sale.value,
      session: session.state,
      attempt: grab.value?.attempt.value ?? null,
      followed: followed.value,
      now: now.value,
    }),
  )

  const pendingId = computed(() => (pending.includes(view.value.key) ? view.value.orderId : undefined))
  let stopFollowing = () => {}
  watch(
    pendingId,
    (orderId) => {
      stopFollowing()
      if (orderId) stopFollowing = followOrder(orderId, events(orderId))
    },
    { immediate: true },
  )
  onScopeDispose(() => stopFollowing())

  function events(orderId: string): WatchEvents {
    return {
      order(order) {
        followed.value = order
        apply({ orderId: order.id, status: order.status })
        void grab.value?.orderChanged(order)
      },
      refused(error) {
        if (error.status === 401) session.lost()
        else void grab.value?.orderLost(orderId)
      },
      // The reloads of the sale go on and bring the result.
      gaveUp: () => {},
    }
  }

  function tap() {
    switch (view.value.action) {
      case 'login':
        return signIn()
      case 'result':
        return void router.push(`/grab/${view.value.orderId}`)
      case 'pay':
        return void router.push(`/pay/${view.value.orderId}`)
      case 'order':
        return void router.push(`/order/${view.value.orderId}`)
      case 'grab':
      case 'resend':
        return void grab.value?.tap()
    }
  }

  /** another buys one more next to an order that the button is about. */
  function another() {
    if (view.value.more) void grab.value?.tap()
  }

  return { view, now, tap, another }
}

function closeToStart(sale: Sale | null): boolean {
  if (sale?.phase !== 'scheduled') return false
  const left = Date.parse(sale.beginsAt) - clock.now()
  return left > 0 && left <= lastTenths + 1000
}
