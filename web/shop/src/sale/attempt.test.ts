import { describe, expect, it } from 'vitest'
import { AttemptStore, newKey, type Attempt } from './attempt'

function memoryStorage() {
  const values = new Map<string, string>()
  return {
    getItem: (name: string) => values.get(name) ?? null,
    setItem: (name: string, value: string) => void values.set(name, value),
    removeItem: (name: string) => void values.delete(name),
    values,
  }
}

describe('a key', () => {
  const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

  it('is a random UUID', () => {
    expect(newKey()).toMatch(uuid)
    expect(newKey()).not.toBe(newKey())
  })

  it('is one too where randomUUID is missing', () => {
    const insecure = { getRandomValues: crypto.getRandomValues.bind(crypto) } as Crypto
    expect(newKey(insecure)).toMatch(uuid)
    expect(newKey(insecure)).not.toBe(newKey(insecure))
  })
})

describe('the store', () => {
  it('brings back a queued and an unknown attempt', () => {
    const storage = memoryStorage()
    for (const attempt of [
      { kind: 'queued', key: 'k', since: 5, orderId: '1234567890123452817' },
      { kind: 'unknown', key: 'k', since: 5 },
    ] satisfies Attempt[]) {
      new AttemptStore(storage, 'u', 's').save(attempt)
      expect(new AttemptStore(storage, 'u', 's').load()).toEqual(attempt)
    }
  })

  it('brings back a submitting attempt as unknown: nobody saw its reply', () => {
    const storage = memoryStorage()
    new AttemptStore(storage, 'u', 's').save({ kind: 'submitting', key: 'k', since: 5 })
    expect(new AttemptStore(storage, 'u', 's').load()).toEqual({ kind: 'unknown', key: 'k', since: 5 })
  })

  it('forgets when no order can exist', () => {
    const storage = memoryStorage()
    const store = new AttemptStore(storage, 'u', 's')
    store.save({ kind: 'unknown', key: 'k', since: 5 })
    store.save({ kind: 'failed', code: 'sale.sold_out' })
    expect(store.load()).toBeNull()
    expect(storage.values.size).toBe(0)
  })

  it('keeps buyers and sales apart', () => {
    const storage = memoryStorage()
    new AttemptStore(storage, 'u', 's').save({ kind: 'unknown', key: 'k', since: 5 })
    expect(new AttemptStore(storage, 'other', 's').load()).toBeNull()
    expect(new AttemptStore(storage, 'u', 'other').load()).toBeNull()
  })

  it('survives storage that refuses or holds rubbish', () => {
    const refuse = () => {
      throw new Error('quota')
    }
    const store = new AttemptStore({ getItem: () => '{', setItem: refuse, removeItem: refuse }, 'u', 's')
    store.save({ kind: 'unknown', key: 'k', since: 5 })
    store.save(null)
    expect(store.load()).toBeNull()
  })
})
