import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Api, makeSale } from './lib/api.js'
import { assertAccessible } from './lib/axe.js'
import { openPhone } from './lib/browser.js'
import { suite } from './lib/suite.js'

const world = suite([], async (it) => {
  it.clerk = await Api.clerk(it.server)
})

/** A till on the page where codes are redeemed; what it sounds and shakes is kept in the page's `heard`. */
async function atTill(t, options) {
  const page = await openPhone(t, world.browser, world.server, {
    user: world.clerk, viewport: { width: 1024, height: 768 }, isMobile: false, hasTouch: false, ...options,
  })
  await page.addInitScript(() => {
    globalThis.heard = { tones: [], shakes: [] }
    const { start } = OscillatorNode.prototype
    OscillatorNode.prototype.start = function (...args) {
      globalThis.heard.tones.push(this.frequency.value)
      return start.apply(this, args)
    }
    Object.defineProperty(navigator, 'vibrate', { value: (pattern) => globalThis.heard.shakes.push(pattern) })
  })
  await page.goto('/verify')
  await page.locator('#code').waitFor()
  return page
}

/** As fast as a scanner types, and then Enter. */
async function scan(page, code) {
  await page.keyboard.type(code)
  await page.keyboard.press('Enter')
}

/** Code and id of an order that is paid. */
async function bought(options) {
  const user = await Api.user(world.server)
  const { id, redeemCode } = await user.buyAndPay(await makeSale(world.operator, options))
  return { id, code: redeemCode }
}

function step(page, kind) {
  return page.locator(`[data-step="${kind}"]`)
}

test('a scanner works wherever the focus is, one voucher after the other, and each result is heard', async (t) => {
  const [first, second] = [await bought(), await bought()]
  const page = await atTill(t)
  await scan(page, first.code)
  await step(page, 'shown').getByText(/\d{4} \d{4} \d{4}/).waitFor()
  await page.getByRole('button', { name: '确认核销' }).click()
  await step(page, 'done').waitFor()

  // A scanner's Enter must not press the button that has the focus.
  await page.locator(`[data-redeemed="${first.id}"]`).getByRole('button', { name: /^撤销/ }).focus()
  await scan(page, second.code)
  await step(page, 'shown').getByText(second.code.slice(-4)).waitFor()
  assert.equal(await page.locator('#code').inputValue(), second.code.replace(/(.{4})(?=.)/g, '$1 '))
  await page.getByRole('button', { name: '确认核销' }).click()
  await step(page, 'done').waitFor()
  await page.locator('[data-redeemed]').nth(1).waitFor()

  await scan(page, first.code)
  await step(page, 'refused').getByText(/^这张券已在 \d\d:\d\d:\d\d 核销过$/).waitFor()
  const { tones, shakes } = await page.evaluate(() => globalThis.heard)
  assert.deepEqual(tones, [1_000, 880, 1_320, 1_000, 880, 1_320, 220])
  assert.equal(shakes.length, 5)
})

test('what is scanned while the voucher before is being redeemed is refused aloud', async (t) => {
  const [first, second] = [await bought(), await bought()]
  const page = await atTill(t)
  let release
  const released = new Promise((resolve) => (release = resolve))
  await page.route((url) => url.pathname === '/api/v1/redemptions', async (route) => {
    if (route.request().method() === 'POST') await released
    await route.continue()
  })
  await scan(page, first.code)
  await page.getByRole('button', { name: '确认核销' }).click()
  await step(page, 'redeeming').waitFor()
  await scan(page, second.code)
  await page.getByText('上一张正在核销，出结果后再扫').waitFor()
  release()
  await step(page, 'done').getByText(first.code.slice(-4)).waitFor()
  await page.unrouteAll({ behavior: 'wait' })
  await scan(page, second.code)
  await step(page, 'shown').getByText(second.code.slice(-4)).waitFor()
})

test('why a code is refused', async (t) => {
  const { server, operator } = world
  const page = await atTill(t, { failing: [/\/redemptions\//] })
  const refused = async (code, why) => {
    await scan(page, code)
    await step(page, 'refused').getByText(why).waitFor()
    await assertAccessible(page)
  }
  await refused('000000000000', '没有这个券码，请核对')
  await refused('4719', '券码是 12 位数字，请检查')
  await refused((await bought({ shop: 2 })).code, '这张券是其他门店的')
  assert.equal(await step(page, 'refused').getByText(/尾号/).count(), 0, 'nothing of a buyer of another shop')

  const user = await Api.user(server)
  const { id, redeemCode } = await user.buyAndPay(await makeSale(operator))
  await user.post(`/orders/${id}/refund`)
  await refused(redeemCode, '这张券已退款')
})

test('without a network nothing is said about the voucher, and looking again is one tap', async (t) => {
  const { code } = await bought()
  const page = await atTill(t, { failing: [/./] })
  await page.context().setOffline(true)
  await scan(page, code)
  await step(page, 'refused').getByText('没有核销').waitFor()
  await page.context().setOffline(false)
  await page.getByRole('button', { name: '再查一次' }).click()
  await step(page, 'shown').waitFor()
})

test('a redemption whose reply is lost is looked up', async (t) => {
  const { code } = await bought()
  const page = await atTill(t, { failing: [/\/redemptions$/] })
  await page.route((url) => url.pathname === '/api/v1/redemptions', async (route) => {
    if (route.request().method() !== 'POST') return route.fallback()
    await route.fetch()
    await route.abort()
  })
  await scan(page, code)
  await page.getByRole('button', { name: '确认核销' }).click()
  await step(page, 'done').getByText(/^回复丢失，但已查到/).waitFor()
})

test('a phone reads the code with its camera, where the browser can', async (t) => {
  const { code } = await bought()
  const page = await atTill(t, { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true })
  assert.equal(await page.getByRole('button', { name: '用摄像头扫码' }).count(), 0, 'this Chromium reads no codes')
  await page.addInitScript((text) => {
    // The code comes into the picture after a while.
    let looks = 0
    globalThis.BarcodeDetector = class {
      static getSupportedFormats = async () => ['qr_code']
      detect = async () => (++looks < 3 ? [] : [{ rawValue: text }])
    }
    navigator.mediaDevices.getUserMedia = async () => document.createElement('canvas').captureStream()
  }, code)
  await page.reload()
  await page.getByRole('button', { name: '用摄像头扫码' }).tap()
  await step(page, 'shown').getByText(code.slice(-4)).waitFor()
  await page.getByRole('dialog').waitFor({ state: 'hidden' })

  await page.evaluate(() => (navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException('', 'NotAllowedError'))))
  await page.getByRole('button', { name: '用摄像头扫码' }).tap()
  await page.getByRole('dialog').getByText(/^打不开摄像头/).waitFor()
  await assertAccessible(page)
})

test('a session that has ended leads to signing in, and back', async (t) => {
  const clerk = await Api.clerk(world.server)
  const page = await atTill(t, { user: clerk, failing: [/\/redemptions/, /\/dev\/codes\?/] })
  await clerk.endIt()
  await scan(page, '000000000000')
  await page.waitForURL((url) => url.pathname === '/login' && url.searchParams.get('to') === '/verify')
})
