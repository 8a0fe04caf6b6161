import { after, before } from 'node:test'
import { Api } from './api.js'
import { openBrowser } from './browser.js'
import { Server } from './server.js'

/** One server, started with `flags`, and one browser for all tests of a file; `prepare` is called with them before the first. */
export function suite(flags = [], prepare = () => {}) {
  const world = {}
  before(async () => {
    ;[world.server, world.browser] = await Promise.all([Server.start(...flags), openBrowser()])
    world.operator = await Api.operator(world.server)
    await prepare(world)
  })
  after(async () => {
    await Promise.all([world.browser?.close(), world.server?.stop()])
  })
  return world
}
