import { useI18n } from 'vue-i18n'
import type { ApiError } from '../api/problem'
import type { OrderStatus } from '../api/types'
import { discountTenths, percentOff } from '../format/money'
import { moment } from '../format/time'
import { clock } from '../clock'

/** useText is `t` plus the few texts that depend on more than a key. */
export function useText() {
  const { t, te, locale } = useI18n()

  /** reason is the reader's text for a problem code or order reason; never the server's own words. */
  function reason(code: string): string {
    return te(`problem.${code}`, 'zh-CN') ? t(`problem.${code}`) : t('problem.other')
  }

  function problem(error: ApiError): string {
    return reason(error.code)
  }

  /** discount is 6.7折, or 33% off; empty when there is none. */
  function discount(payFen: number, faceFen: number): string {
    const tenths = discountTenths(payFen, faceFen)
    if (tenths === null) return ''
    if (tenths === 0) return t('price.free')
    return t('price.discount', { tenths, percent: percentOff(payFen, faceFen) })
  }

  function at(time: string | number): string {
    return moment(time, clock.now(), locale.value)
  }

  /** standing is an order's status as its buyer reads it: what is paid waits to be used. */
  function standing(status: OrderStatus): string {
    return status === 'paid' ? t('order.toUse') : t(`status.${status}`)
  }

  return { t, locale, reason, problem, discount, at, standing }
}
