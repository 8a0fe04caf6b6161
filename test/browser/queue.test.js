import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Api, makeSale } from './lib/api.js'
import { countGrabs, flashButton, openPhone } from './lib/browser.js'
import { suite } from './lib/suite.js'

// Nobody works on the queue until the server is started again.
const world = suite(['--writers', '0'])

test('a place in the queue outlives a reload and a restart of the server', async (t) => {
  const { browser, server, operator } = world
  const user = await Api.user(server)
  const sale = await makeSale(operator)
  const page = await openPhone(t, browser, server, { user, failing: [/./] })
  const grabs = countGrabs(page)
  await page.goto(`/sale/${sale.id}`)
  await flashButton(page, 'live').tap()
  await flashButton(page, 'queued').waitFor()

  await page.reload()
  await flashButton(page, 'queued').tap()
  const result = page.locator('[data-status]')
  await page.locator('[data-status="queued"]').waitFor()
  const number = await result.locator('code').innerText()

  await page.reload()
  await page.locator('[data-status="queued"]').waitFor()
  assert.equal(await result.locator('code').innerText(), number)
  assert.equal((await user.get('/orders')).items[0].id, number)

  await server.restart('--writers', '1')
  await page.locator('[data-status="unpaid"]').waitFor()
  assert.equal(await result.locator('code').innerText(), number)
  assert.equal(grabs.length, 1)
})

test('an order in the queue stands above all others, and takes its place among them by itself', async (t) => {
  const { browser, server, operator } = world
  const user = await Api.user(server)
  await server.restart('--writers', '1')
  const [earlier, later] = [await makeSale(operator), await makeSale(operator)]
  const written = await user.buy(earlier)
  await server.restart('--writers', '0')
  const { orderId: queued } = await user.post(`/sales/${later.id}/orders`)
  const page = await openPhone(t, browser, server, { user, failing: [/./] })
  await page.goto('/orders')
  const cards = page.locator('[data-order]')
  await cards.nth(1).waitFor()
  const shown = () => cards.evaluateAll((all) => all.map((each) => each.dataset.order))
  assert.deepEqual(await shown(), [queued, written])
  await cards.first().getByText('排队中').waitFor()
  await cards.first().getByRole('link', { name: '查看进度' }).waitFor()

  await server.restart('--writers', '1')
  await cards.first().getByRole('link', { name: '去支付' }).waitFor()
  assert.deepEqual(await shown(), [queued, written])
})
