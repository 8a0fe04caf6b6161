import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Api } from './lib/api.js'
import { flashButton, followToResult, openBrowser } from './lib/browser.js'
import { Server } from './lib/server.js'

const phone = { width: 390, height: 844 }

/** Buys a share of each live sale, so that the town looks as busy as it is meant to be. */
async function crowd(server, sales) {
  const { tokens } = await new Api(server.url).post('/console/test-users', { count: 200 })
  for (const [i, sale] of sales.entries()) {
    const share = [0.66, 0.38, 0.82, 0.55, 0.24][i % 5]
    const buyers = tokens.slice(0, Math.min(tokens.length, Math.round(sale.stockTotal * share)))
    await Promise.all(buyers.map((token) => new Api(server.url, token).post(`/sales/${sale.id}/orders`)))
  }
}

/** Home, the sale and the code, as one buyer sees them one after the other. */
async function visit(browser, server, user, sale) {
  const context = await browser.newContext({
    baseURL: server.url,
    viewport: phone,
    deviceScaleFactor: 2,
    isMobile: true,
    hasTouch: true,
    locale: 'zh-CN',
    timezoneId: 'Asia/Shanghai',
    reducedMotion: 'reduce',
  })
  await context.addCookies([{ name: 'tandian_session', value: user.token, url: server.url }])
  const page = await context.newPage()
  const shots = []
  const shoot = async () => {
    // Those further down are only loaded when somebody scrolls to them.
    await page.waitForFunction(() =>
      [...document.images].every((image) => image.complete || image.getBoundingClientRect().top > innerHeight),
    )
    shots.push(await page.screenshot())
  }
  await page.goto('/')
  await page.locator('article.ticket').first().waitFor()
  await shoot()
  await page.goto(`/sale/${sale.id}`)
  await flashButton(page, 'live').waitFor()
  await shoot()
  await flashButton(page, 'live').tap()
  await followToResult(page)
  await page.locator('button[data-state="ready"]').tap()
  await page.locator('button[value="pay"]').tap()
  await page.locator('a.main').tap()
  await page.locator('[data-code]').waitFor()
  await page.evaluate(() => Promise.all(document.getAnimations().map(({ finished }) => finished)))
  await shoot()
  await context.close()
  return shots
}

/** Three phones side by side. */
async function compose(browser, shots) {
  const page = await browser.newPage({ viewport: { width: 1120, height: 776 }, deviceScaleFactor: 1.5 })
  const images = shots.map((shot) => `<img src="data:image/png;base64,${shot.toString('base64')}" alt="">`)
  await page.setContent(`<!doctype html><style>
    body { display: flex; justify-content: center; gap: 36px; margin: 0; padding: 36px 0; background: #ffe9de; }
    img { width: 314px; height: 680px; border: 9px solid #2a211c; border-radius: 44px; box-shadow: 0 18px 36px #7a3a1c33; }
    img:nth-child(2) { translate: 0 -8px; }
  </style>${images.join('')}`)
  await page.waitForFunction(() => [...document.images].every((image) => image.complete))
  const picture = await page.screenshot()
  await page.close()
  return picture
}

const folder = process.argv[2]
const [server, browser] = await Promise.all([Server.start('--limit-ip', '100000'), openBrowser()])
try {
  const { items } = await new Api(server.url).get('/sales?state=live')
  await crowd(server, items)
  const shots = await visit(browser, server, await Api.user(server), items[1])
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, 'tandian.png'), await compose(browser, shots))
} finally {
  await Promise.all([browser.close(), server.stop()])
}
