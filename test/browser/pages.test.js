import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Api, makeSale } from './lib/api.js'
import { assertAccessible } from './lib/axe.js'
import { openPhone } from './lib/browser.js'
import { suite } from './lib/suite.js'

const chinese = /[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef]/

/** Every page of the shop, with what is on it once it has loaded. */
let pages

const world = suite([], async ({ server, operator }) => {
  const user = await Api.user(server)
  const live = await makeSale(operator)
  const scheduled = await makeSale(operator, { beginsIn: 3_600_000, endsIn: 7_200_000 })
  const held = await makeSale(operator)
  const orderId = await user.buy(held)
  const paid = await user.buyAndPay(await makeSale(operator))
  const closed = await user.buy(await makeSale(operator))
  await user.post(`/orders/${closed}/close`)
  const clerk = await Api.clerk(server)
  pages = [
    { path: '/', shows: 'article.ticket' },
    { path: `/sale/${live.id}`, shows: 'button[data-state="login"]' },
    { path: `/sale/${live.id}`, user, shows: 'button[data-state="live"]' },
    { path: `/sale/${scheduled.id}`, user, shows: 'button[data-state="scheduled"]' },
    { path: `/sale/${held.id}`, user, shows: 'button[data-state="unpaid"]' },
    { path: '/sale/999', failing: [/\/sales\/999$/], shows: '.note' },
    { path: '/shop/1', shows: '.hero' },
    { path: '/shop/999', failing: [/\/shops\/999/], shows: '.note' },
    { path: `/grab/${orderId}`, user, shows: '[data-status="unpaid"]' },
    { path: `/pay/${orderId}`, user, shows: 'button[data-state="ready"]' },
    { path: `/pay/${closed}`, user, shows: '[data-status="closed"]' },
    { path: '/orders', user, shows: '[data-order]' },
    { path: '/orders?tab=refund', user, shows: '.note' },
    { path: `/order/${orderId}`, user, shows: '[data-status="unpaid"]' },
    { path: `/order/${paid.id}`, user, shows: '[data-code]' },
    { path: '/order/999', user, failing: [/\/orders\/999/], shows: '.note' },
    { path: '/verify', user: clerk, shows: '#code' },
    { path: '/verify', user, shows: '.note' },
    { path: '/login', shows: 'aside' },
    { path: '/me', shows: '.profile a' },
    { path: '/me', user: clerk, shows: '.verify' },
    { path: '/me', user, shows: '.shortcuts' },
    { path: '/no/such/page', failing: [/\/no\/such\/page$/], shows: '.note' },
  ]
})

/** Opens each page in turn on a phone of its own and calls `look` once it shows what it should. */
async function eachPage(t, options, look, prepare = () => {}) {
  for (const { path, user, failing = [], shows } of pages) {
    await t.test(user ? `${path}, signed in, ${shows}` : path, async (t) => {
      const page = await openPhone(t, world.browser, world.server, { user, failing: [/\/events$/, ...failing], ...options })
      await prepare(page)
      await page.goto(path)
      await page.locator(shows).first().waitFor()
      await look(page)
      await page.unrouteAll({ behavior: 'wait' })
    })
  }
}

test('every page is Chinese unless asked, and can be used by everybody, light and dark', async (t) => {
  await eachPage(t, { locale: 'en-US' }, async (page) => {
    assert.equal(await page.locator('html').getAttribute('lang'), 'zh-CN')
    assert.match(await page.title(), /探店$/)
    const phrases = (await page.evaluate(visibleTexts)).filter((text) => /^[A-Z][a-z]+(?: [a-z]+)+/.test(text))
    assert.deepEqual(phrases, [], 'English on the page')
    await assertAccessible(page)
    for (const tag of ['a', 'button', 'input']) {
      const ring = await page.evaluate(focusRing, tag)
      assert.match(ring, /^(solid|)$/, `the ring around what has the focus: ${tag}`)
    }

    await page.emulateMedia({ colorScheme: 'dark' })
    await page.locator('html.van-theme-dark').waitFor()
    await assertAccessible(page)
  })
})

test('English leaves no Chinese on the page', async (t) => {
  const inEnglish = async (page) => {
    await page.addInitScript(() => localStorage.setItem('tandian.language', 'en'))
    // With the server's own texts in Latin letters, any Chinese left is the page's. The stream would bring them back.
    await page.route('**/api/v1/**', async (route) => {
      if (route.request().url().endsWith('/events')) return route.abort()
      const reply = await route.fetch()
      await route.fulfill({ response: reply, body: (await reply.text()).replace(new RegExp(chinese, 'g'), 'x') })
    })
  }
  const look = async (page) => {
    assert.equal(await page.locator('html').getAttribute('lang'), 'en')
    const texts = await page.evaluate(visibleTexts)
    assert.ok(texts.length > 3)
    assert.deepEqual(texts.filter((text) => chinese.test(text)), [])
  }
  await eachPage(t, {}, look, inEnglish)
})

/** In the page: how the first visible element of the kind is outlined when the keyboard leads to it; empty when there is none. */
function focusRing(tag) {
  const element = [...document.querySelectorAll(`main ${tag}`)].find((each) => each.checkVisibility() && each.getBoundingClientRect().width > 2)
  element?.focus({ focusVisible: true })
  return element ? getComputedStyle(element).outlineStyle : ''
}

/** In the page: title, texts, and what screen readers and empty fields say; parts that declare to be Chinese are left out. */
function visibleTexts() {
  const texts = [document.title]
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT, (node) => {
    if (node instanceof Element && (node.getAttribute('lang')?.startsWith('zh') || /^(script|style|noscript)$/i.test(node.tagName))) return NodeFilter.FILTER_REJECT
    return NodeFilter.FILTER_ACCEPT
  })
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    if (node instanceof Element) {
      for (const name of ['aria-label', 'alt', 'title', 'placeholder']) texts.push(node.getAttribute(name) ?? '')
    } else texts.push(node.data.trim())
  }
  return texts.filter((text) => text !== '')
}

test('a chosen category narrows the shops', async (t) => {
  const page = await openPhone(t, world.browser, world.server)
  await page.goto('/')
  const names = page.locator('.shops h3')
  await names.first().waitFor()
  const cafes = page.getByRole('list', { name: '商家分类' }).getByRole('button', { name: '酒吧' })
  const { items } = await new Api(world.server.url).get('/categories')
  const bars = items.find(({ name }) => name === '酒吧')
  const { items: wanted } = await new Api(world.server.url).get(`/shops?category=${bars.id}`)

  await cafes.tap()
  await page.getByText('没有更多了').waitFor()
  assert.deepEqual(await names.allInnerTexts(), wanted.map(({ name }) => name))

  await page.locator('.shops .only').tap()
  await names.nth(wanted.length).waitFor()
})

test('the way back leads to the same tab and place among the orders', async (t) => {
  const user = await Api.user(world.server)
  const ids = []
  for (let i = 0; i < 4; i++) ids.push((await user.buyAndPay(await makeSale(world.operator))).id)
  const page = await openPhone(t, world.browser, world.server, { user, viewport: { width: 390, height: 420 } })
  await page.goto('/orders')
  await page.getByRole('button', { name: '待使用' }).tap()
  await page.waitForURL(/tab=paid$/)
  const oldest = page.locator(`[data-order="${ids[0]}"]`)
  await oldest.scrollIntoViewIfNeeded()
  const { y } = await oldest.boundingBox()
  await oldest.getByRole('link').first().tap()
  await page.locator('[data-code]').waitFor()
  await page.goBack()
  await oldest.waitFor()
  assert.equal(await page.getByRole('button', { name: '待使用' }).getAttribute('aria-current'), 'page')
  await page.waitForFunction(([id, was]) => Math.abs(document.querySelector(`[data-order="${id}"]`).getBoundingClientRect().y - was) < 2, [ids[0], y])
})
