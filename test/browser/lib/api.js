import assert from 'node:assert/strict'
import { demoPassword, operator } from './server.js'

/** The HTTP API, spoken beside the browser. */
export class Api {
  constructor(url, token) {
    this.base = `${url}/api/v1`
    this.token = token
  }

  /** The operator of the demo town. */
  static async operator(server) {
    const { token } = await new Api(server.url).post('/auth/sessions', { phone: operator, password: demoPassword })
    return new Api(server.url, token)
  }

  /** A fresh user who is signed in. */
  static async user(server) {
    const { tokens } = await new Api(server.url).post('/console/test-users', { count: 1 })
    return new Api(server.url, tokens[0])
  }

  get(path) {
    return this.#send('GET', path)
  }

  post(path, body = {}) {
    return this.#send('POST', path, body)
  }

  /** Whether the server still takes the token. */
  async signedIn() {
    const reply = await this.#fetch('GET', '/me')
    return reply.status === 200
  }

  /** Ends the session of the token. */
  async endIt() {
    const reply = await this.#fetch('DELETE', '/auth/sessions/current')
    assert.equal(reply.status, 204)
  }

  async #send(method, path, body) {
    const reply = await this.#fetch(method, path, body)
    const text = await reply.text()
    assert.ok(reply.ok, `${method} ${path}: ${reply.status} ${text}`)
    return text === '' ? null : JSON.parse(text)
  }

  #fetch(method, path, body) {
    const headers = { 'content-type': 'application/json', ...(this.token && { authorization: this.token }) }
    return fetch(this.base + path, { method, headers, body: body && JSON.stringify(body) })
  }
}

const title = '浏览器里的秒杀'

/**
 * Makes a sale at the first shop of the town. Times are milliseconds from now;
 * without `beginsIn` it is on already.
 */
export async function makeSale(operatorApi, { beginsIn = 0, endsIn = 600_000, stock = 10, limitPerUser = 1 } = {}) {
  const voucher = await operatorApi.post('/shops/1/vouchers', { title, payValue: 1990, faceValue: 4000 })
  const { now } = await operatorApi.get('/time')
  const at = (ms) => new Date(Date.parse(now) + ms).toISOString()
  return operatorApi.post(`/vouchers/${voucher.id}/sale`, { stock, limitPerUser, beginsAt: at(beginsIn), endsAt: at(endsIn) })
}
