import { expect, it } from 'vitest'
import { ApiError } from './api/problem'
import { cursorList, type Page } from './cursorList'

/** A list of n numbers in pages of two, whose replies the test may hold back. */
class Pages {
  fail = false
  calls: (string | undefined)[] = []
  held: Promise<void> | undefined
  readonly list = cursorList<number>((cursor) => this.fetch(cursor))

  constructor(public n: number) {}

  private async fetch(cursor: string | undefined): Promise<Page<number>> {
    this.calls.push(cursor)
    await this.held
    if (this.fail) throw new ApiError('client.network', 0)
    const start = Number(cursor ?? 0)
    const items = Array.from({ length: Math.min(2, this.n - start) }, (_, i) => start + i)
    return start + 2 < this.n ? { items, nextCursor: String(start + 2) } : { items }
  }
}

it('adds page to page until the end', async () => {
  const { list } = new Pages(3)
  await list.reload()
  expect([list.items.value, list.hasMore.value]).toEqual([[0, 1], true])
  await list.more()
  expect([list.items.value, list.hasMore.value]).toEqual([[0, 1, 2], false])
})

it('asks for a page once, however often it is wanted', async () => {
  const { list, calls } = new Pages(6)
  await list.reload()
  await Promise.all([list.more(), list.more(), list.more()])
  expect(calls).toEqual([undefined, '2'])
  expect(list.items.value).toEqual([0, 1, 2, 3])
})

it('reloads as much as it showed, and replaces it', async () => {
  const p = new Pages(6)
  await p.list.reload()
  await p.list.more()
  p.n = 3
  await p.list.reload()
  expect([p.list.items.value, p.list.hasMore.value]).toEqual([[0, 1, 2], false])
})

it('drops the page that a reload overtook', async () => {
  const p = new Pages(6)
  await p.list.reload()
  let release = () => {}
  p.held = new Promise<void>((resolve) => (release = resolve))
  const late = p.list.more()
  p.held = undefined
  await p.list.reload()
  release()
  await late
  expect(p.list.items.value).toEqual([0, 1])
})

it('keeps what it has when a page fails, and goes on from there', async () => {
  const p = new Pages(4)
  await p.list.reload()
  p.fail = true
  await p.list.more()
  expect([p.list.items.value, p.list.problem.value?.code]).toEqual([[0, 1], 'client.network'])
  p.fail = false
  await p.list.more()
  expect([p.list.items.value, p.list.problem.value]).toEqual([[0, 1, 2, 3], null])
})

it('doubles nothing when a reload of the whole list has failed', async () => {
  const p = new Pages(3)
  await p.list.reload()
  await p.list.more()
  p.fail = true
  await p.list.reload()
  expect(p.list.problem.value?.code).toBe('client.network')
  p.fail = false
  await p.list.more()
  expect([p.list.items.value, p.list.problem.value]).toEqual([[0, 1, 2], null])
})

it('is not ready before the first page', async () => {
  const p = new Pages(4)
  p.fail = true
  await p.list.reload()
  expect(p.list.ready.value).toBe(false)
  p.fail = false
  await p.list.reload()
  expect(p.list.ready.value).toBe(true)
})
