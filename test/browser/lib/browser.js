import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { chromium } from 'playwright-core'

const places = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome']

/** Starts Chromium with an empty profile; no host but this one can be reached from it. */
export function openBrowser() {
  return chromium.launch({
    executablePath: places.find((path) => path && existsSync(path)),
    args: [
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1',
    ],
  })
}

/**
 * Opens a page as a phone of its own, signed in with the token of `user` if one
 * is given. The test fails if the page asks another server for anything, or
 * writes an error to the console that isn't the failed load of an address in `failing`.
 */
export async function openPhone(t, browser, server, { user, failing = [], ...options } = {}) {
  const context = await browser.newContext({
    baseURL: server.url,
    viewport: { width: 390, height: 844 },
    hasTouch: true,
    isMobile: true,
    locale: 'zh-CN',
    timezoneId: 'Asia/Shanghai',
    ...options,
  })
  context.setDefaultTimeout(15_000)
  if (user) await context.addCookies([{ name: 'tandian_session', value: user.token, url: server.url, httpOnly: true, sameSite: 'Lax' }])
  // Who isn't signed in learns that from a 401, an inbox without a code is a 404.
  const expected = user ? failing : [/\/api\/v1\/me$/, /\/dev\/codes\?/, ...failing]

  const faults = []
  context.on('request', (request) => {
    const { protocol, origin } = new URL(request.url())
    if (protocol !== 'data:' && protocol !== 'blob:' && origin !== server.url) faults.push(`asked ${request.url()}`)
  })
  context.on('console', (message) => {
    if (message.type() !== 'error') return
    const { url } = message.location()
    const isLoad = message.text().startsWith('Failed to load resource')
    if (!isLoad || !expected.some((pattern) => pattern.test(url))) faults.push(`console: ${message.text()} ${url}`)
  })
  context.on('weberror', (error) => faults.push(`thrown: ${error.error().stack}`))
  t.after(async () => {
    await context.close()
    assert.deepEqual(faults, [])
  })
  return context.newPage()
}

/** The flash-sale button in the given state. */
export function flashButton(page, state) {
  return page.locator(`button[data-state="${state}"]`)
}

/** Collects the attempts to buy that leave the page from now on. */
export function countGrabs(page) {
  const grabs = []
  page.on('request', (request) => {
    if (request.method() === 'POST' && /\/sales\/\d+\/orders$/.test(request.url())) grabs.push(request)
  })
  return grabs
}

/** From the sale's page to where the order that came out of it is paid; a quick tap may have led to its result already. */
export async function followToResult(page) {
  const held = flashButton(page, 'unpaid')
  const result = page.locator('[data-status="unpaid"]')
  await held.or(result).waitFor()
  if (await held.isVisible()) await held.click()
  await result.waitFor()
}
