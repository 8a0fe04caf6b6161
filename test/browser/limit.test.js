import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Api } from './lib/api.js'
import { countGrabs, flashButton, followToResult, openPhone } from './lib/browser.js'
import { suite } from './lib/suite.js'

const world = suite(['--limit-user', '1'])

test('too many requests: the button waits as long as it is told, then works', async (t) => {
  const { browser, server, operator } = world
  const user = await Api.user(server)
  // The town's own sales: with this limit the operator couldn't make two in a row.
  const [sale] = (await user.get('/sales?state=live')).items
  const [other] = (await user.get('/sales?state=upcoming')).items
  const page = await openPhone(t, browser, server, { user, failing: [/\/orders$/, /\/events$/] })
  await page.goto(`/sale/${sale.id}`)
  await flashButton(page, 'live').waitFor()
  const grabs = countGrabs(page)
  const limited = page.waitForResponse((reply) => reply.url().endsWith(`/sales/${sale.id}/orders`))

  // Another tab of the same buyer uses up what he may send, and he taps in the same moment.
  await page.evaluate(async (id) => {
    let status = 0
    while (status !== 429) status = (await fetch(`/api/v1/sales/${id}/orders`, { method: 'POST' })).status
    document.querySelector('button[data-state="live"]').click()
  }, other.id)
  await flashButton(page, 'limited').waitFor()
  const refused = await limited
  assert.equal(refused.status(), 429)
  assert.ok((await refused.json()).retryAfterMs > 0)

  const before = grabs.length
  await flashButton(page, 'live').tap()
  await followToResult(page)
  assert.equal(grabs.length, before + 1)
  assert.equal((await operator.get(`/console/sales/${sale.id}`)).db.live, 1)
})
