import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Api, makeSale } from './lib/api.js'
import { countGrabs, flashButton, followToResult, openPhone } from './lib/browser.js'
import { suite } from './lib/suite.js'

const world = suite()

/** Opens the page of a sale as somebody who is signed in. */
async function open(t, sale, options) {
  const user = await Api.user(world.server)
  const page = await openPhone(t, world.browser, world.server, { user, ...options })
  const grabs = countGrabs(page)
  await page.goto(`/sale/${sale.id}`)
  return { page, user, grabs }
}

/** The button says why nothing can be bought, and a tap on it asks for nothing. */
async function assertClosed({ page, grabs }, state, text) {
  const button = flashButton(page, state)
  await button.waitFor()
  assert.match(await button.innerText(), text)
  assert.equal(await button.getAttribute('aria-disabled'), 'true')
  const reread = page.waitForResponse((reply) => /\/api\/v1\/sales\/\d+$/.test(reply.url()))
  await button.tap({ force: true })
  await refresh(page)
  await reread
  assert.equal(grabs.length, 0)
}

/** What the browser does when it gets its network back: the page looks at the sale at once. */
function refresh(page) {
  return page.evaluate(() => window.dispatchEvent(new Event('online')))
}

test('far ahead', async (t) => {
  const sale = await makeSale(world.operator, { beginsIn: 5_400_000, endsIn: 7_200_000 })
  const phone = await open(t, sale)
  await assertClosed(phone, 'scheduled', /^未开始 · 01:(30:00|29:5\d)$/)
})

test('sold out, until units come back', async (t) => {
  const sale = await makeSale(world.operator, { stock: 1 })
  await (await Api.user(world.server)).post(`/sales/${sale.id}/orders`)
  const phone = await open(t, sale)
  await assertClosed(phone, 'soldOut', /^已抢光$/)
  await phone.page.getByText('剩 0 / 1 份').waitFor()

  await world.operator.post(`/sales/${sale.id}/stock`, { delta: 3, reason: 'more came in' })
  await refresh(phone.page)
  await flashButton(phone.page, 'live').tap()
  await followToResult(phone.page)
})

test('taken by others between two looks', async (t) => {
  const sale = await makeSale(world.operator, { stock: 1 })
  const { page } = await open(t, sale, { failing: [/\/orders$/] })
  await flashButton(page, 'live').waitFor()
  await (await Api.user(world.server)).post(`/sales/${sale.id}/orders`)
  await flashButton(page, 'live').tap()
  await flashButton(page, 'soldOut').waitFor()
  await page.getByText('库存不足，已被抢光').first().waitFor()
})

test('ended while somebody watches', async (t) => {
  const sale = await makeSale(world.operator, { endsIn: 3_000 })
  const phone = await open(t, sale)
  await flashButton(phone.page, 'live').waitFor()
  await flashButton(phone.page, 'ended').waitFor()
  assert.ok(Date.parse((await world.operator.get('/time')).now) >= Date.parse(sale.endsAt))
  await assertClosed(phone, 'ended', /^已结束$/)
})

test('paused, then resumed', async (t) => {
  const sale = await makeSale(world.operator)
  await world.operator.post(`/sales/${sale.id}/pause`)
  const phone = await open(t, sale)
  await assertClosed(phone, 'paused', /^活动暂停$/)

  await world.operator.post(`/sales/${sale.id}/resume`)
  await refresh(phone.page)
  await flashButton(phone.page, 'live').waitFor()
})

test('bought already: the button leads to the order', async (t) => {
  const sale = await makeSale(world.operator)
  const user = await Api.user(world.server)
  const { orderId } = await user.post(`/sales/${sale.id}/orders`)
  const page = await openPhone(t, world.browser, world.server, { user })
  await page.goto(`/sale/${sale.id}`)
  await followToResult(page)
  assert.equal(await page.locator('dd code').innerText(), orderId)
  await page.goBack()
  await flashButton(page, 'unpaid').waitFor()
})

test('offline, then back', async (t) => {
  const sale = await makeSale(world.operator)
  const { page, grabs } = await open(t, sale, { failing: [/./] })
  await flashButton(page, 'live').waitFor()
  await page.context().setOffline(true)
  const button = flashButton(page, 'offline')
  await button.waitFor()
  assert.equal(await button.innerText(), '无网络')
  await page.getByText('无网络，恢复后自动继续').waitFor()
  await button.tap({ force: true })
  await page.context().setOffline(false)
  await flashButton(page, 'live').waitFor()
  assert.equal(grabs.length, 0)
  await flashButton(page, 'live').tap()
  await followToResult(page)
})
