import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Api, makeSale } from './lib/api.js'
import { countGrabs, flashButton, followToResult, openPhone } from './lib/browser.js'
import { suite } from './lib/suite.js'

const world = suite()

test('from signing in to the order: three taps, one request, one order, one number', async (t) => {
  const { browser, server, operator } = world
  const sale = await makeSale(operator, { beginsIn: 6_000 })
  const page = await openPhone(t, browser, server)
  await page.goto(`/sale/${sale.id}`)

  await flashButton(page, 'login').tap()
  await page.getByLabel('手机号').fill('13911110001')
  await page.getByRole('button', { name: '获取验证码' }).tap()
  const box = page.getByRole('complementary', { name: '开发模式' })
  await box.getByRole('button', { name: '填入' }).tap()
  assert.equal(await page.getByPlaceholder('短信验证码').inputValue(), await box.locator('b').innerText())
  await page.getByRole('checkbox').tap()
  await page.getByRole('button', { name: '登录', exact: true }).tap()
  await page.waitForURL((url) => url.pathname === `/sale/${sale.id}`)

  await flashButton(page, 'soon').waitFor()
  const grabs = countGrabs(page)
  await flashButton(page, 'soon').tap({ force: true })
  await flashButton(page, 'live').waitFor()
  assert.equal(grabs.length, 0, 'a tap before the start asks for nothing')

  const { x, y, width, height } = await flashButton(page, 'live').boundingBox()
  const accepted = page.waitForResponse((reply) => reply.request().method() === 'POST' && reply.url().endsWith('/orders'))
  const tap = () => page.touchscreen.tap(x + width / 2, y + height / 2)
  // The request gets through only after the third tap.
  let release
  const released = new Promise((resolve) => (release = resolve))
  await page.route('**/sales/*/orders', (route) => released.then(() => route.continue()))
  await Promise.all([tap(), tap(), tap()])
  release()
  const { orderId } = await (await accepted).json()
  await followToResult(page)

  assert.equal(grabs.length, 1, 'requests')
  assert.match(new URL(page.url()).pathname, new RegExp(`^/(grab|pay)/${orderId}$`))
  assert.equal(await page.locator('dd code').innerText(), orderId)
  const raw = await (await page.request.get('/api/v1/orders')).text()
  assert.deepEqual([...raw.matchAll(/"id":"(\d+)","saleId"/g)].map(([, id]) => id), [orderId], 'orders of the buyer')
  assert.equal((await operator.get(`/console/sales/${sale.id}`)).db.live, 1, 'orders of the sale')

  await page.goto('/me')
  await page.getByRole('link', { name: /^待支付/ }).tap()
  await page.locator(`[data-order="${orderId}"]`).waitFor()
})

test('a phone whose clock is wrong sees the server\'s time', async (t) => {
  for (const hours of [-2, 2]) {
    await t.test(`${hours} hours`, async (t) => {
      const { browser, server, operator } = world
      const user = await Api.user(server)
      const sale = await makeSale(operator, { beginsIn: 4_000 })
      const page = await openPhone(t, browser, server, { user })
      await page.addInitScript((ms) => {
        const Right = Date
        globalThis.Date = class extends Right {
          constructor(...args) {
            super(...(args.length > 0 ? args : [Right.now() + ms]))
          }
          static now() {
            return Right.now() + ms
          }
        }
      }, hours * 3_600_000)
      await page.goto(`/sale/${sale.id}`)

      const soon = await flashButton(page, 'soon').innerText()
      assert.match(soon, /00:0[0-4]\.\d/, 'the countdown')
      await flashButton(page, 'live').waitFor()
      assert.ok(Date.parse((await operator.get('/time')).now) >= Date.parse(sale.beginsAt), 'it opens when the server says so')
      await flashButton(page, 'live').tap()
      await followToResult(page)
      await page.goto(`/pay/${await page.locator('dd code').innerText()}`)
      await page.locator('[data-status="unpaid"]').waitFor()
      assert.match(await page.getByRole('timer').textContent(), /^00:(30|29):\d\d$/)
    })
  }
})

test('a blocked event stream is replaced by asking', async (t) => {
  const { browser, server, operator } = world
  const user = await Api.user(server)
  const sale = await makeSale(operator)
  const { orderId } = await user.post(`/sales/${sale.id}/orders`)
  const page = await openPhone(t, browser, server, { user })
  let streams = 0
  // As behind a proxy that keeps the stream to itself: the request is taken and nothing ever comes back.
  await page.route('**/events', () => void streams++)
  const asked = page.waitForRequest((request) => request.url().endsWith(`/orders/${orderId}`))
  await page.goto(`/grab/${orderId}`)
  await asked
  await page.locator('[data-status="unpaid"]').waitFor()
  assert.equal(await page.locator('dd code').innerText(), orderId)
  assert.equal(streams, 1)
})

test('an answer that is lost on the way is asked for again under the same key', async (t) => {
  const { browser, server, operator } = world
  const user = await Api.user(server)
  const sale = await makeSale(operator)
  const page = await openPhone(t, browser, server, { user, failing: [/\/orders$/] })
  await page.goto(`/sale/${sale.id}`)
  const grabs = countGrabs(page)
  await page.route('**/sales/*/orders', async (route) => {
    await route.fetch()
    await route.abort()
  }, { times: 1 })

  await flashButton(page, 'live').tap()
  await flashButton(page, 'unknown').tap()
  await followToResult(page)

  const keys = grabs.map((request) => request.headers()['idempotency-key'])
  assert.equal(keys.length, 2)
  assert.equal(keys[0], keys[1])
  assert.equal((await user.get('/orders')).items.length, 1)
})
