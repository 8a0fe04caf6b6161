import type { OrderStatus } from '../api/types'
import type { Page } from '../cursorList'

/** The tabs of the orders page. */
export const tabs = ['all', 'unpaid', 'paid', 'done', 'refund'] as const
export type Tab = (typeof tabs)[number]

/** What each tab shows, one after the other; undefined = orders in any state, which begin with the queued ones. */
export const tabStates: Record<Tab, (OrderStatus | undefined)[]> = {
  all: [undefined],
  unpaid: ['queued', 'unpaid'],
  paid: ['paid'],
  done: ['used'],
  refund: ['refunding', 'refunded'],
}

/** tabOf reads a tab from an address. */
export function tabOf(wanted: unknown): Tab {
  return tabs.find((tab) => tab === wanted) ?? 'all'
}

/**
 * inTurn makes one paged list out of several: when one has ended the next begins, and a page is only short at the very
 * end. Its cursors are the number of the list and the cursor within it.
 */
export function inTurn<S, T>(
  lists: S[],
  pageSize: number,
  fetchPage: (list: S, cursor: string | undefined, limit: number) => Promise<Page<T>>,
): (cursor?: string) => Promise<Page<T>> {
  return async (from) => {
    let [at, cursor] = parse(from)
    const items: T[] = []
    while (at < lists.length && items.length < pageSize) {
      const page = await fetchPage(lists[at]!, cursor, pageSize - items.length)
      items.push(...(page.items ?? []))
      cursor = page.nextCursor || undefined
      if (cursor === undefined) at++
    }
    return at < lists.length ? { items, nextCursor: `${at}:${cursor ?? ''}` } : { items }
  }
}

function parse(cursor = '0:'): [list: number, cursor: string | undefined] {
  const colon = cursor.indexOf(':')
  return [Number(cursor.slice(0, colon)), cursor.slice(colon + 1) || undefined]
}
