import assert from 'node:assert/strict'
import { clerk, demoPassword, operator } from './server.js'

/** The HTTP API, spoken beside the browser. */
export class Api {
  constructor(url, token) {
    this.base = `${url}/api/v1`
    this.token = token
  }

  /** The operator of the demo town. */
  static operator(server) {
    return Api.#demo(server, operator)
  }

  /** A clerk of the first shop of the demo town. */
  static clerk(server) {
    return Api.#demo(server, clerk)
  }

  static async #demo(server, phone) {
    const { token } = await new Api(server.url).post('/auth/sessions', { phone, password: demoPassword })
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

  /** Buys at the sale and returns the id of the order once it is written. */
  async buy(sale) {
    const { orderId } = await this.post(`/sales/${sale.id}/orders`)
    await this.settled(orderId, 'unpaid')
    return orderId
  }

  /** Buys and pays at the sandbox; returns the order. */
  async buyAndPay(sale) {
    const id = await this.buy(sale)
    const { payUrl } = await this.post(`/orders/${id}/payments`, { provider: 'sandbox' })
    const paid = await fetch(new URL(payUrl, this.base), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ action: 'pay' }),
    })
    assert.ok(paid.ok)
    return this.settled(id, 'paid')
  }

  /** The order as its event stream tells it once it has the status. */
  async settled(id, status) {
    const abort = new AbortController()
    const reply = await this.#fetch('GET', `/orders/${id}/events`, undefined, AbortSignal.any([abort.signal, AbortSignal.timeout(15_000)]))
    let text = ''
    try {
      for await (const part of reply.body.pipeThrough(new TextDecoderStream())) {
        text += part
        const orders = [...text.matchAll(/^data: (.*)\n/gm)].map(([, data]) => JSON.parse(data))
        const order = orders.find((each) => each.status === status)
        if (order) return order
      }
    } finally {
      abort.abort()
    }
    throw new Error(`order ${id} isn't ${status}: ${text}`)
  }

  #fetch(method, path, body, signal) {
    const headers = { 'content-type': 'application/json', ...(this.token && { authorization: this.token }) }
    return fetch(this.base + path, { method, headers, body: body && JSON.stringify(body), signal })
  }
}

const title = '浏览器里的秒杀'

/**
 * Makes a sale at a shop of the town, its first by default. Times are
 * milliseconds from now; without `beginsIn` it is on already.
 */
export async function makeSale(operatorApi, { shop = 1, beginsIn = 0, endsIn = 600_000, stock = 10, limitPerUser = 1 } = {}) {
  const voucher = await operatorApi.post(`/shops/${shop}/vouchers`, { title, payValue: 1990, faceValue: 4000 })
  const { now } = await operatorApi.get('/time')
  const at = (ms) => new Date(Date.parse(now) + ms).toISOString()
  return operatorApi.post(`/vouchers/${voucher.id}/sale`, { stock, limitPerUser, beginsAt: at(beginsIn), endsAt: at(endsIn) })
}
