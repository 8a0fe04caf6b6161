import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Api } from './lib/api.js'
import { openPhone } from './lib/browser.js'
import { suite } from './lib/suite.js'

const world = suite()

/** Fills the form by hand: the code comes from the box of the development mode, `change` may spoil it. */
async function signInByCode(page, phone, change = (code) => code) {
  await page.getByLabel('手机号').fill(phone)
  await page.getByRole('button', { name: '获取验证码' }).tap()
  const code = await page.getByRole('complementary', { name: '开发模式' }).locator('b').innerText()
  await page.getByPlaceholder('短信验证码').fill(change(code))
  await page.getByRole('checkbox').tap()
  await page.getByRole('button', { name: '登录', exact: true }).tap()
  return code
}

/** The session of the page, to be used after the page has given it up. */
async function sessionOf(page) {
  const cookies = await page.context().cookies()
  const { value, httpOnly } = cookies.find(({ name }) => name === 'tandian_session')
  assert.ok(httpOnly, 'scripts must not read the session')
  return new Api(world.server.url, value)
}

test('a wrong code is refused, the right one still works', async (t) => {
  const page = await openPhone(t, world.browser, world.server, { failing: [/\/auth\/sessions$/] })
  await page.goto('/login?to=/me')
  const code = await signInByCode(page, '13922220001', (right) => String((Number(right) + 1) % 1_000_000).padStart(6, '0'))
  await page.getByText('验证码不正确或已过期').waitFor()
  assert.equal(new URL(page.url()).pathname, '/login')

  await page.getByPlaceholder('短信验证码').fill(code)
  await page.getByRole('button', { name: '登录', exact: true }).tap()
  await page.waitForURL((url) => url.pathname === '/me')
  await page.getByText('139****0001').waitFor()
})

test('nothing is sent while the form is wrong', async (t) => {
  const page = await openPhone(t, world.browser, world.server)
  const sent = []
  page.on('request', (request) => request.method() === 'POST' && sent.push(request.url()))
  await page.goto('/login')
  await page.getByLabel('手机号').fill('12345')
  await page.getByRole('button', { name: '获取验证码' }).tap()
  await page.getByText('请输入正确的手机号').waitFor()
  await page.getByRole('button', { name: '登录', exact: true }).tap()
  await page.getByText('请先勾选同意使用与隐私说明').waitFor()
  assert.deepEqual(sent, [])
})

test('signing out ends the session itself', async (t) => {
  const page = await openPhone(t, world.browser, world.server)
  await page.goto('/login?to=/me')
  await signInByCode(page, '13922220002')
  await page.waitForURL((url) => url.pathname === '/me')
  const session = await sessionOf(page)
  assert.ok(await session.signedIn())

  await page.getByRole('button', { name: '退出登录' }).tap()
  await page.getByRole('dialog').getByRole('button', { name: '退出登录' }).tap()
  await page.getByRole('link', { name: '登录 / 注册' }).waitFor()
  assert.equal(await session.signedIn(), false, 'the old token is taken')

  await page.reload()
  await page.getByRole('link', { name: '登录 / 注册' }).waitFor()
})

test('a session that was ended elsewhere leads to sign-in and back', async (t) => {
  const page = await openPhone(t, world.browser, world.server, { failing: [/\/api\/v1\//] })
  await page.goto('/grab/1')
  await page.waitForURL('**/login?to=/grab/1')
  // With the account that the box fills in.
  await page.getByRole('button', { name: '顾客' }).tap()
  await page.getByRole('checkbox').tap()
  await page.getByRole('button', { name: '登录', exact: true }).tap()
  await page.waitForURL((url) => url.pathname === '/grab/1')
  await page.getByText('订单不存在').waitFor()

  await (await sessionOf(page)).endIt()
  await page.reload()
  await page.waitForURL('**/login?to=/grab/1')
})

test('a link cannot send people elsewhere after they have signed in', async (t) => {
  const page = await openPhone(t, world.browser, world.server)
  await page.goto('/login?to=https://example.com/')
  await signInByCode(page, '13922220003')
  await page.waitForURL(`${world.server.url}/`)
})
