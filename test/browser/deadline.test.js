import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Api, makeSale } from './lib/api.js'
import { assertAccessible } from './lib/axe.js'
import { flashButton, followToResult, openPhone } from './lib/browser.js'
import { suite } from './lib/suite.js'

const world = suite(['--pay-window', '6s'])

// They wait, mostly.
describe('an order that is not paid in time', { concurrency: true }, () => {
  test('the deadline passes, and the last unit is sold to somebody else', async (t) => {
    const { browser, server, operator } = world
    const sale = await makeSale(operator, { stock: 1 })
    const [late, next] = [await Api.user(server), await Api.user(server)]
    const page = await openPhone(t, browser, server, { user: late })
    await page.goto(`/sale/${sale.id}`)
    await flashButton(page, 'live').tap()
    await flashButton(page, 'unpaid').filter({ hasText: /^去支付 · 00:0\d$/ }).waitFor()
    await followToResult(page)
    const id = await page.locator('dd code').innerText()

    const waiting = await openPhone(t, browser, server, { user: next })
    await waiting.goto(`/sale/${sale.id}`)
    await flashButton(waiting, 'soldOut').waitFor()

    await page.locator('[data-status="closed"]').getByText('超时未支付，已取消').waitFor()
    assert.ok(Date.parse((await late.get('/time')).now) >= Date.parse((await late.get(`/orders/${id}`)).payBefore), 'not before the deadline')
    await assertAccessible(page)

    // The page looks by itself every few seconds; the browser's network coming back makes it look now.
    await waiting.evaluate(() => window.dispatchEvent(new Event('online')))
    await flashButton(waiting, 'live').tap()
    await followToResult(waiting)
    const { db } = await operator.get(`/console/sales/${sale.id}`)
    assert.deepEqual([db.live, db.stock], [1, 0])

    await page.goto(`/sale/${sale.id}`)
    await flashButton(page, 'soldOut').waitFor()
  })

  test('money that arrives after the deadline goes back, and the page says so', async (t) => {
    const { browser, server, operator } = world
    const user = await Api.user(server)
    const id = await user.buy(await makeSale(operator))
    const page = await openPhone(t, browser, server, { user })
    await page.goto(`/pay/${id}`)
    await page.locator('button[data-state="ready"]').tap()
    await page.locator('summary').tap()
    await page.locator('button[value="late"]').tap()
    await page.getByRole('heading', { name: '款项在路上' }).waitFor()
    await page.locator('a.main').tap()
    await page.locator('[data-status="closed"]').getByText('订单取消后才收到付款，¥19.90 已退回').waitFor()
    await assertAccessible(page)
  })
})
