/**
 * An attempt is one try to grab, as far as this tab knows. Its key is the
 * Idempotency-Key: asking again with the same key can't buy twice.
 */
export type Attempt =
  | { kind: 'submitting'; key: string; since: number }
  | { kind: 'queued'; key: string; since: number; orderId: string }
  | { kind: 'unknown'; key: string; since: number }
  | { kind: 'limited'; until: number }
  | { kind: 'bought'; orderId: string }
  | { kind: 'failed'; code: string }

/** newKey is a random UUID. On plain http in a LAN `randomUUID` is missing, `getRandomValues` is not. */
export function newKey(source: Crypto = crypto): string {
  if (typeof source.randomUUID === 'function') return source.randomUUID()
  const bytes = source.getRandomValues(new Uint8Array(16))
  bytes[6] = (bytes[6]! & 0x0f) | 0x40
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  const hex = Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('')
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}

/**
 * AttemptStore keeps the attempt of a user at a sale over a reload, for the
 * states in which an order may exist. Everything else can be asked from the server.
 */
export class AttemptStore {
  constructor(
    private readonly storage: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>,
    private readonly userId: string,
    private readonly saleId: string,
  ) {}

  private get name(): string {
    return `tandian.attempt.${this.userId}.${this.saleId}`
  }

  save(attempt: Attempt | null): void {
    try {
      if (attempt && 'key' in attempt) this.storage.setItem(this.name, JSON.stringify(attempt))
      else this.storage.removeItem(this.name)
    } catch {
      // Storage is full or forbidden: the attempt then lives as long as the page.
    }
  }

  /** load brings back the attempt; one that was being submitted is now unknown. */
  load(): Attempt | null {
    try {
      const attempt = JSON.parse(this.storage.getItem(this.name) ?? 'null') as Attempt | null
      if (attempt?.kind !== 'submitting') return attempt
      return { kind: 'unknown', key: attempt.key, since: attempt.since }
    } catch {
      return null
    }
  }
}
