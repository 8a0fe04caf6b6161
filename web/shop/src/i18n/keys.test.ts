import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { OrderStatus } from '../api/types'
import type { ButtonKey } from '../sale/button'
import en from './en'
import zhCN from './zh-CN'

/** flatten turns nested messages into dotted keys. */
function flatten(messages: object, prefix = ''): Map<string, string> {
  const flat = new Map<string, string>()
  for (const [key, value] of Object.entries(messages)) {
    if (typeof value === 'string') flat.set(prefix + key, value)
    else for (const [inner, text] of flatten(value, `${prefix}${key}.`)) flat.set(inner, text)
  }
  return flat
}

const chinese = flatten(zhCN)
const english = flatten(en)
const placeholders = (text: string) => [...new Set(text.match(/\{\w+\}/g))].sort()

const sources = readdirSync(join(import.meta.dirname, '..'), { recursive: true, encoding: 'utf8' })
  .filter((name) => /\.(vue|ts)$/.test(name) && !name.endsWith('.test.ts') && !name.includes('i18n'))
  .map((name) => ({ name, code: readFileSync(join(import.meta.dirname, '..', name), 'utf8') }))

describe('both languages', () => {
  it('have the same keys', () => {
    expect([...english.keys()].sort()).toEqual([...chinese.keys()].sort())
  })

  it('fill the same placeholders', () => {
    // Chinese counts what is paid, English what is saved.
    const differ = [...chinese]
      .filter(([key, text]) => String(placeholders(text)) !== String(placeholders(english.get(key) ?? '')))
      .map(([key]) => key)
    expect(differ).toEqual(['price.discount'])
  })

  it('leave nothing empty or untranslated', () => {
    const empty = [...chinese, ...english].filter(([key, text]) => text === '' && key !== 'sale.hint.loading')
    expect(empty).toEqual([])
    const han = [...english].filter(([key, text]) => /\p{Script=Han}/u.test(text) && key !== 'me.languages.zh-CN')
    expect(han).toEqual([])
  })
})

describe('the pages', () => {
  const namespaces = Object.keys(zhCN).join('|')
  const literals = (code: string) =>
    [...code.matchAll(new RegExp(`'((?:${namespaces})(?:\\.[\\w-]+)+)'`, 'g'))].map((match) => match[1]!)
  const prefixes = (code: string) => [...code.matchAll(/`([a-z]+(?:\.\w+)*\.)\$\{/gi)].map((match) => match[1]!)

  it('use only keys that exist', () => {
    // Problem codes look like keys and are below "problem".
    const missing = sources.flatMap(({ name, code }) =>
      literals(code)
        .filter((key) => !chinese.has(key) && !chinese.has(`problem.${key}`) && key !== 'login.termsBody')
        .map((key) => `${name}: ${key}`),
    )
    expect(missing).toEqual([])
  })

  it('use every key', () => {
    const all = sources.map(({ code }) => code).join('\n') + readFileSync(join(import.meta.dirname, 'useText.ts'), 'utf8')
    const used = new Set(literals(all))
    const begun = [...prefixes(all), 'login.termsBody.']
    const unused = [...chinese.keys()].filter((key) => !used.has(key) && !begun.some((prefix) => key.startsWith(prefix)))
    expect(unused).toEqual([])
  })

  it('have a text for every state and status', () => {
    // The types are the check: a missing one doesn't compile.
    zhCN.button satisfies Record<ButtonKey, string>
    zhCN.sale.hint satisfies Record<ButtonKey, string>
    zhCN.status satisfies Record<OrderStatus, string>
    zhCN.grab.headline satisfies Record<OrderStatus, string>
  })

  it('have a text for every problem of every operation they call', () => {
    const document = JSON.parse(readFileSync(join(import.meta.dirname, '../../../../api/openapi.json'), 'utf8')) as {
      paths: Record<string, Record<string, { description?: string }>>
    }
    const calls = sources.flatMap(({ code }) => [...code.matchAll(/\bapi\.(GET|POST|DELETE)\('([^']+)'/g)])
    expect(calls.length).toBeGreaterThan(10)
    const silent = calls.flatMap(([, method, path]) => {
      const description = document.paths[path!]?.[method!.toLowerCase()]?.description ?? ''
      return [...description.matchAll(/^`([\w.]+)`: /gm)]
        .map((match) => match[1]!)
        // The development box reads these two instead of showing them.
        .filter((code) => !['auth.no_code', 'request.no_such_path'].includes(code) && !chinese.has(`problem.${code}`))
        .map((code) => `${method} ${path}: ${code}`)
    })
    expect(silent).toEqual([])
  })

  it('hold no text of their own', () => {
    const comment = /\/\*[\s\S]*?\*\/|\/\/.*|<!--[\s\S]*?-->/g
    const own = sources.filter(({ code }) => /\p{Script=Han}/u.test(code.replace(comment, '')))
    expect(own.map(({ name }) => name)).toEqual([])
  })
})
