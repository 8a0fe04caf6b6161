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
