import { describe, expect, it } from 'vitest'
import type { OrderStatus } from '../api/types'
import { inTurn, tabOf, tabs, tabStates } from './tabs'

describe('the tabs', () => {
  it('are read from an address that may hold anything', () => {
    expect(tabs.map(tabOf)).toEqual([...tabs])
    expect([undefined, 'other', ['paid'], null].map(tabOf)).toEqual(['all', 'all', 'all', 'all'])
  })

  it('show no state twice, and queued orders before those that wait for payment', () => {
    const shown = tabs.flatMap((tab) => tabStates[tab]).filter((state) => state !== undefined)
    expect(new Set(shown).size).toBe(shown.length)
    expect(tabStates.unpaid).toEqual(['queued', 'unpaid'])
  })
})

describe('lists in turn', () => {
  /** A server that holds so many orders of each state and pages them by offset. */
  function server(counts: Partial<Record<OrderStatus, number>>) {
    const asked: string[] = []
    const fetchPage = async (state: OrderStatus, cursor: string | undefined, limit: number) => {
      asked.push(`${state} ${cursor ?? '-'} ${limit}`)
      const from = Number(cursor ?? 0)
      const end = Math.min(counts[state] ?? 0, from + limit)
      const items = Array.from({ length: end - from }, (_, i) => `${state}${from + i}`)
      return end < (counts[state] ?? 0) ? { items, nextCursor: String(end) } : { items }
    }
    return { asked, fetchPage }
  }

  /** All pages of the list, by their cursors. */
  async function pages(counts: Partial<Record<OrderStatus, number>>, size: number) {
    const { asked, fetchPage } = server(counts)
    const list = inTurn<OrderStatus, string>(['refunding', 'refunded'], size, fetchPage)
    const all: string[][] = []
    let cursor: string | undefined
    do {
      const page = await list(cursor)
      all.push(page.items ?? [])
      cursor = page.nextCursor
    } while (cursor !== undefined)
    return { all, asked }
  }

  it.each([
    [{}, 3, [[]]],
    [{ refunding: 2 }, 3, [['refunding0', 'refunding1']]],
    [{ refunded: 1 }, 3, [['refunded0']]],
    [{ refunding: 1, refunded: 3 }, 3, [['refunding0', 'refunded0', 'refunded1'], ['refunded2']]],
    [{ refunding: 3, refunded: 1 }, 3, [['refunding0', 'refunding1', 'refunding2'], ['refunded0']]],
    [{ refunding: 4 }, 3, [['refunding0', 'refunding1', 'refunding2'], ['refunding3']]],
  ])('of %j by %i', async (counts, size, expected) => {
    expect((await pages(counts, size)).all).toEqual(expected)
  })

  it('asks only for what is missing from the page', async () => {
    const { asked } = await pages({ refunding: 1, refunded: 3 }, 3)
    expect(asked).toEqual(['refunding - 3', 'refunded - 2', 'refunded 2 3'])
  })

  it('hands an error on', async () => {
    const list = inTurn(['a'], 3, async () => {
      throw new Error('down')
    })
    await expect(list()).rejects.toThrow('down')
  })
})
