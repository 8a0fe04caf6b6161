import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Api, makeSale } from './lib/api.js'
import { assertAccessible } from './lib/axe.js'
import { flashButton, followToResult, openPhone } from './lib/browser.js'
import { suite } from './lib/suite.js'

const world = suite([], async (it) => {
  it.clerk = await Api.clerk(it.server)
})

/** A buyer's phone on the page where an order of his is paid. */
async function atPayPage(t, options) {
  const user = await Api.user(world.server)
  const id = await user.buy(await makeSale(world.operator))
  const page = await openPhone(t, world.browser, world.server, { user, ...options })
  await page.goto(`/pay/${id}`)
  await payButton(page, 'ready').waitFor()
  return { user, id, page }
}

function payButton(page, state) {
  return page.locator(`button[data-state="${state}"]`)
}

/** At the sandbox's cashier: does what the button of that value does, and goes back to the shop. */
async function atCashier(page, choice) {
  await page.waitForURL((url) => url.pathname.startsWith('/sandbox/'))
  if (choice !== 'pay') await page.locator('summary').tap()
  await page.locator(`button[value="${choice}"]`).tap()
  await page.locator('a.main').tap()
}

test('from the sale to the counter: grabbed, paid, redeemed, and the buyer sees it', async (t) => {
  const { browser, server, operator, clerk } = world
  const user = await Api.user(server)
  const sale = await makeSale(operator)
  const page = await openPhone(t, browser, server, { user })
  await page.goto(`/sale/${sale.id}`)
  await flashButton(page, 'live').tap()
  await flashButton(page, 'unpaid').filter({ hasText: /^去支付 · (30:00|29:\d\d)$/ }).waitFor()
  await followToResult(page)
  const id = await page.locator('dd code').innerText()
  assert.equal(new URL(page.url()).pathname, `/pay/${id}`)

  await payButton(page, 'ready').tap()
  await atCashier(page, 'pay')
  const code = page.locator('[data-code]')
  await code.waitFor()
  assert.match(await code.innerText(), /^\d{4} \d{4} \d{4}$/)
  await page.getByRole('img', { name: '券码二维码' }).waitFor()

  // The clerk's scanner: twelve digits and Enter, wherever the focus is.
  const till = await openPhone(t, browser, server, { user: clerk, viewport: { width: 1024, height: 768 }, isMobile: false, hasTouch: false })
  await till.goto('/verify')
  await till.locator('#code').waitFor()
  const scan = async () => {
    await till.keyboard.type((await user.get(`/orders/${id}`)).redeemCode ?? digits)
    await till.keyboard.press('Enter')
  }
  const digits = (await code.innerText()).replaceAll(' ', '')
  await scan()
  const result = till.locator('[data-step]')
  await till.locator('[data-step="shown"]').waitFor()
  assert.match(await result.innerText(), /浏览器里的秒杀[\s\S]*¥40\.00[\s\S]*巷口牛肉面馆[\s\S]*尾号 \d{4}/)
  assert.equal((await user.get(`/orders/${id}`)).status, 'paid', 'looking uses nothing up')
  await assertAccessible(till)

  await till.getByRole('button', { name: '确认核销' }).click()
  await till.locator('[data-step="done"]').getByText('核销成功').waitFor()
  await assertAccessible(till)
  await page.locator('[data-status="used"]').waitFor()
  assert.equal(await code.count(), 0, 'a used code is not shown')

  await scan()
  await till.locator('[data-step="refused"]').getByText(/^这张券已在 \d\d:\d\d:\d\d 核销过$/).waitFor()
  await assertAccessible(till)

  await till.locator(`[data-redeemed="${id}"]`).getByRole('button', { name: /^撤销 · \d+ s$/ }).click()
  await code.waitFor()
  await till.getByText('今天还没有核销').waitFor()
})

test('a lost answer: the cashier opens at the second try, and there is one attempt to pay', async (t) => {
  const { user, id, page } = await atPayPage(t, { failing: [/\/payments$/] })
  await page.route('**/payments', async (route) => {
    await route.fetch()
    await route.abort()
  }, { times: 1 })
  await payButton(page, 'ready').tap()
  await page.locator('[data-pay="unanswered"]').waitFor()
  await assertAccessible(page)
  await payButton(page, 'unanswered').tap()
  await atCashier(page, 'pay')
  await page.locator('[data-code]').waitFor()
  const { payments } = await user.get(`/orders/${id}`)
  assert.deepEqual(payments.map(({ status }) => status), ['captured'])
})

/** Collects the requests to pay that leave the phone from now on, and holds them back until `release` is called. */
async function holdPayments(page) {
  const posts = []
  let release
  const released = new Promise((resolve) => (release = resolve))
  await page.route('**/payments', async (route) => {
    posts.push(route.request())
    await released
    await route.continue().catch(() => {}) // the page may be gone
  })
  return { posts, release }
}

test('three taps are one request', async (t) => {
  const { page, user, id } = await atPayPage(t)
  const { posts, release } = await holdPayments(page)
  const { x, y, width, height } = await payButton(page, 'ready').boundingBox()
  const tap = () => page.touchscreen.tap(x + width / 2, y + height / 2)
  await Promise.all([tap(), tap(), tap()])
  await payButton(page, 'opening').waitFor()
  release()
  await page.waitForURL((url) => url.pathname.startsWith('/sandbox/'))
  assert.equal(posts.length, 1)
  assert.equal((await user.get(`/orders/${id}`)).payments.length, 1)
})

test('a reload while the cashier opens, two tabs, and the back button: one attempt all the same', async (t) => {
  const { page, user, id } = await atPayPage(t)
  const { release } = await holdPayments(page)
  await payButton(page, 'ready').tap()
  await payButton(page, 'opening').waitFor()
  await page.reload()
  release()
  await page.unrouteAll({ behavior: 'wait' })

  const other = await page.context().newPage()
  await other.goto(`/pay/${id}`)
  await payButton(other, 'ready').waitFor()

  await payButton(page, 'ready').tap()
  await page.waitForURL((url) => url.pathname.startsWith('/sandbox/'))
  await payButton(other, 'ready').tap()
  await other.waitForURL((url) => url.pathname.startsWith('/sandbox/'))
  assert.equal(new URL(other.url()).pathname, new URL(page.url()).pathname, 'the same payment')

  await other.goBack()
  await other.locator('[data-pay="confirming"], [data-pay="unconfirmed"]').waitFor()
  await atCashier(page, 'pay')
  await page.locator('[data-code]').waitFor()
  await other.locator('[data-code]').waitFor()
  await page.goBack()
  await page.getByRole('heading', { name: '支付成功' }).waitFor()
  const { payments } = await user.get(`/orders/${id}`)
  assert.deepEqual(payments.map(({ status }) => status), ['captured'])
})

test('without a network nothing is asked for; with it the page goes on', async (t) => {
  const { page } = await atPayPage(t, { failing: [/./] })
  const { posts, release } = await holdPayments(page)
  release()
  await page.context().setOffline(true)
  await payButton(page, 'ready').filter({ hasText: /^无网络$/ }).tap({ force: true })
  await page.context().setOffline(false)
  await payButton(page, 'ready').filter({ hasText: /^确认支付/ }).waitFor()
  assert.equal(posts.length, 0)
  await payButton(page, 'ready').tap()
  await atCashier(page, 'pay')
  await page.locator('[data-code]').waitFor()
})

test('the cashier speaks the language chosen in the shop', async (t) => {
  const { page } = await atPayPage(t)
  await page.evaluate(() => localStorage.setItem('tandian.language', 'en'))
  await page.reload()
  await payButton(page, 'ready').tap()
  await page.getByRole('heading', { name: 'Tandian Cashier' }).waitFor()
  await assertAccessible(page)
  await atCashier(page, 'fail')
  await page.getByText('The last payment did not work out').waitFor()
})

test('a payment nobody calls back about is asked for until it is known, over a reload', async (t) => {
  const { page, id } = await atPayPage(t)
  await payButton(page, 'ready').tap()
  await atCashier(page, 'silent')
  await page.locator('[data-pay="confirming"]').waitFor()
  await page.goto(`/pay/${id}`)
  await payButton(page, 'confirming').waitFor()
  await page.reload()
  await payButton(page, 'confirming').waitFor()
  await assertAccessible(page)
  await page.locator('[data-code]').waitFor()
  assert.equal(new URL(page.url()).pathname, `/order/${id}`)
})

test('a payment that fails takes nothing, and the next one works', async (t) => {
  const { page } = await atPayPage(t)
  await payButton(page, 'ready').tap()
  await atCashier(page, 'fail')
  await page.getByText('上次支付没有成功').waitFor()
  await page.getByRole('link', { name: '去支付' }).tap()
  await payButton(page, 'ready').tap()
  await atCashier(page, 'pay')
  await page.locator('[data-code]').waitFor()
})

test('a refund: asked first, its reply lost; the code is gone, and the unit can be bought again', async (t) => {
  const user = await Api.user(world.server)
  const sale = await makeSale(world.operator, { stock: 1 })
  const { id } = await user.buyAndPay(sale)
  const page = await openPhone(t, world.browser, world.server, { user, failing: [/\/refund$/] })
  await page.route('**/refund', async (route) => {
    await route.fetch()
    await route.abort()
  }, { times: 1 })
  await page.goto(`/order/${id}`)
  await page.getByRole('button', { name: '申请退款' }).tap()
  const sheet = page.getByRole('dialog', { name: '申请退款？' })
  await sheet.getByText('¥19.90 原路退回').waitFor()
  await assertAccessible(page)
  await sheet.getByRole('button', { name: '再想想' }).tap()
  await sheet.waitFor({ state: 'hidden' })
  assert.equal((await user.get(`/orders/${id}`)).status, 'paid')

  await page.getByRole('button', { name: '申请退款' }).tap()
  await sheet.getByRole('button', { name: '申请退款' }).tap()
  await page.locator('[data-status="refunded"]').waitFor()
  assert.equal(await page.locator('[data-code]').count(), 0)
  await page.getByText('¥19.90 已原路退回').waitFor()

  await page.goto('/orders?tab=refund')
  await page.locator(`[data-order="${id}"]`).getByText('已退款').waitFor()
  await page.goto(`/sale/${sale.id}`)
  await flashButton(page, 'live').waitFor()
})

test('a cancelled order frees the place, and the buyer may try again', async (t) => {
  const user = await Api.user(world.server)
  const sale = await makeSale(world.operator, { stock: 1 })
  const id = await user.buy(sale)
  const page = await openPhone(t, world.browser, world.server, { user })
  await page.goto(`/order/${id}`)
  await page.getByRole('button', { name: '取消订单' }).tap()
  await page.getByRole('dialog').getByRole('button', { name: '取消订单' }).tap()
  await page.locator('[data-status="closed"]').getByText('你已取消订单').waitFor()
  await page.getByRole('link', { name: '再抢一次' }).tap()
  await flashButton(page, 'expired').tap()
  await followToResult(page)
})
