import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { watch } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const binary = process.env.TANDIAN_BINARY ?? join(import.meta.dirname, '../../../bin/tandian')
const startWithinMs = 20_000

/** The accounts of the demo town that the tests use. */
export const operator = '13800000001'
export const clerk = '13800000003'
export const demoPassword = 'tandian-demo'

/** The real server as a child, with the demo town in a folder of its own. */
export class Server {
  #dir
  #child
  #output = ''
  url = ''

  /** Starts a server; `flags` are added to the command line. */
  static async start(...flags) {
    const server = new Server()
    server.#dir = await mkdtemp(join(tmpdir(), 'tandian-browser-'))
    try {
      await server.#run('127.0.0.1:0', flags)
    } catch (error) {
      await server.stop()
      throw error
    }
    return server
  }

  /** Starts it again on the same address and data, with other flags. */
  async restart(...flags) {
    await this.#end()
    await this.#run(new URL(this.url).host, flags)
  }

  async stop() {
    await this.#end()
    await rm(this.#dir, { recursive: true, force: true })
  }

  async #run(addr, flags) {
    const ready = join(this.#dir, 'ready')
    await rm(ready, { force: true })
    // The folder is watched before the file can be there.
    const abort = AbortSignal.timeout(startWithinMs)
    const appeared = new Promise((resolve, reject) => {
      const watcher = watch(this.#dir, { signal: abort }, (_, name) => {
        if (name === 'ready') settle(resolve)
      })
      const settle = (how, value) => {
        watcher.close()
        how(value)
      }
      abort.addEventListener('abort', () => reject(new Error(`the server doesn't serve:\n${this.#output}`)))
      this.#child = spawn(
        binary,
        ['demo', '--addr', addr, '--admin-addr', '127.0.0.1:0', '--data-dir', join(this.#dir, 'data'), '--ready-file', ready, ...flags],
        { stdio: ['ignore', 'pipe', 'pipe'] },
      )
      for (const stream of [this.#child.stdout, this.#child.stderr]) stream.on('data', (text) => (this.#output += text))
      this.#child.on('error', (error) => settle(reject, error))
      this.#child.on('exit', (code) => settle(reject, new Error(`the server ended with ${code}:\n${this.#output}`)))
    })
    await appeared
    this.url = JSON.parse(await readFile(ready, 'utf8')).url
  }

  async #end() {
    const child = this.#child
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill('SIGTERM')
    await ended
  }
}
