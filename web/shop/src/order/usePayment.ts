import { computed, onScopeDispose, watch } from 'vue'
import { api, unwrap } from '../api/client'
import { clock, useNow } from '../clock'
import { useSession } from '../session'
import { tabStorage } from '../storage'
import { CashierMemory, cashierAddress, keepAsking, Payment, payView, type PayKey } from './payment'
import type { useOrder } from './useOrder'

/** While the page shows one of these, the outcome is asked for. */
const open: PayKey[] = ['confirming', 'unconfirmed', 'over']

/** usePayment joins an order and this tab's attempt to pay it into what the page shows about the money. */
export function usePayment(id: string, { order, reload }: Pick<ReturnType<typeof useOrder>, 'order' | 'reload'>) {
  const session = useSession()
  const { now, refresh } = useNow()
  const payment = new Payment({
    // The product has one way to pay so far.
    post: () => unwrap(api.POST('/api/v1/orders/{id}/payments', { params: { path: { id } }, body: { provider: 'sandbox' } })),
    leave: (url) => location.assign(cashierAddress(url, document.documentElement.lang)),
    reload,
    signIn: () => session.lost(),
    now: () => clock.now(),
    memory: new CashierMemory(tabStorage(), id),
  })

  watch(order, (fresh) => {
    refresh()
    if (fresh) payment.orderChanged(fresh)
  })
  const view = computed(() => payView(order.value, payment.state.value, now.value))

  let stopAsking = () => {}
  watch(
    () => open.includes(view.value.key),
    (asks) => {
      stopAsking()
      stopAsking = asks ? keepAsking(reload) : () => {}
    },
    { immediate: true },
  )

  // The browser may bring back the page as it was when the buyer left for the cashier.
  function onShow(event: PageTransitionEvent) {
    if (event.persisted) payment.returned()
  }
  window.addEventListener('pageshow', onShow)
  onScopeDispose(() => {
    stopAsking()
    window.removeEventListener('pageshow', onShow)
  })

  return { view, now, pay: () => void payment.tap() }
}
