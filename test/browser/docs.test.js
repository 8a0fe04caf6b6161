import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertAccessible } from './lib/axe.js'
import { openPhone } from './lib/browser.js'
import { suite } from './lib/suite.js'

const world = suite()
const desktop = { viewport: { width: 1280, height: 900 }, isMobile: false, hasTouch: false }

test('the reference shows every operation and calls the server', async (t) => {
  const page = await openPhone(t, world.browser, world.server, desktop)
  await page.goto('/docs')
  await page.locator('.opblock').first().waitFor()
  const { paths } = await (await page.request.get('/api/openapi.json')).json()
  const operations = Object.values(paths).flatMap((methods) => Object.keys(methods))
  assert.equal(await page.locator('.opblock').count(), operations.length)

  await assertAccessible(page, { exclude: '#api' }) // Swagger UI's own markup is beyond us

  const clock = page.locator('#operations-meta-get-time')
  await clock.locator('.opblock-summary-control').click()
  await clock.getByRole('button', { name: 'Try it out' }).click()
  await clock.getByRole('button', { name: 'Execute' }).click()
  await clock.locator('.live-responses-table').getByText('200', { exact: true }).waitFor()
  assert.match(await clock.locator('.live-responses-table').innerText(), /"now": "\d{4}-/)
})

for (const colorScheme of ['light', 'dark']) {
  test(`the type of a problem leads to its row, ${colorScheme}`, async (t) => {
    const page = await openPhone(t, world.browser, world.server, { colorScheme, failing: [/none/] })
    const problem = await (await page.request.get('/api/v1/none')).json()
    await page.goto(problem.type)
    const row = page.locator(`tr:target`)
    await row.waitFor()
    assert.equal(await row.locator('code').first().innerText(), problem.code)
    assert.match(await row.innerText(), new RegExp(problem.status))
    await row.scrollIntoViewIfNeeded()
    assert.notEqual(
      await row.evaluate((each) => getComputedStyle(each).backgroundColor),
      await page.locator('tbody tr').first().evaluate((each) => getComputedStyle(each).backgroundColor),
    )
    await assertAccessible(page)
  })
}
