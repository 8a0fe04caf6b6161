import type { ApiError } from '../api/problem'
import type { Order, OrderStatus } from '../api/types'

/** Polling after the n-th ask; the last one repeats. */
const pollDelaysMs = [500, 1_000, 2_000, 4_000]
/** Polling for a place in the queue stops after this long: what isn't decided by then shows up among the orders. */
export const pollForMs = 60_000
/** An event stream that hasn't said a word by then is blocked somewhere on the way. */
export const silenceMs = 3_000
const errorsInARow = 3
/** Once the queue has decided, what follows takes minutes: that is how often a page without a stream looks. */
export const restingPollMs = 10_000

/** Nothing leads on from these. A used order isn't one of them: the shop may take the redemption back. */
const lastStatuses: OrderStatus[] = ['closed', 'refunded', 'failed']

/** isSettled reports whether neither the order nor its money can change: money may arrive after the order was closed, and goes back. */
function isSettled({ status, payments, refund }: Order): boolean {
  if (status !== 'closed') return lastStatuses.includes(status)
  return refund ? refund.status !== 'asked' : !payments?.length
}

/** The part of EventSource used here. */
export interface EventStream {
  readonly readyState: number
  addEventListener(type: 'order', listener: (event: { data: string }) => void): void
  addEventListener(type: 'error', listener: () => void): void
  close(): void
}

export interface WatchPorts {
  open(orderId: string): EventStream
  /** Throws an ApiError. */
  fetch(orderId: string): Promise<Order>
  random(): number
  /** Monotonic milliseconds. */
  now(): number
}

export interface WatchEvents {
  /** The order as it is now: at the start and after every change. */
  order(order: Order): void
  /** Watching ended because the order can't be read: not ours, or nobody is signed in. */
  refused(error: ApiError): void
  /** Watching ended without a result. */
  gaveUp(): void
}

/**
 * watchOrder follows an order by its event stream and, when that doesn't get
 * through, by polling. It ends by itself when nothing can change any more; the
 * returned function ends it earlier. One page holds at most one.
 */
export function watchOrder(orderId: string, events: WatchEvents, ports: WatchPorts): () => void {
  let stopped = false
  let timer: ReturnType<typeof setTimeout> | undefined
  let stream: EventStream | undefined

  function stop() {
    stopped = true
    clearTimeout(timer)
    stream?.close()
  }

  function deliver(order: Order) {
    if (stopped) return
    if (isSettled(order)) stop()
    events.order(order)
  }

  /** rest looks again after a while. */
  function rest() {
    timer = setTimeout(() => void poll(0, ports.now() + pollForMs), spread(restingPollMs))
  }

  function listen() {
    let errors = 0
    stream = ports.open(orderId)
    timer = setTimeout(fallBack, silenceMs)
    stream.addEventListener('order', (event) => {
      errors = 0
      clearTimeout(timer)
      const order = JSON.parse(event.data) as Order
      deliver(order)
      if (stopped || !lastStatuses.includes(order.status)) return
      stream?.close() // the server ends it here too
      rest()
    })
    stream.addEventListener('error', () => {
      // The browser reconnects by itself unless the server refused the stream.
      if (stream?.readyState === 2 || ++errors >= errorsInARow) fallBack()
    })
  }

  function fallBack() {
    clearTimeout(timer)
    stream?.close()
    if (!stopped) void poll(0, ports.now() + pollForMs)
  }

  async function poll(asked: number, until: number) {
    try {
      const order = await ports.fetch(orderId)
      deliver(order)
      if (stopped) return
      if (order.status !== 'queued') return rest()
    } catch (thrown) {
      const error = thrown as ApiError
      if (stopped) return
      if (error.status === 404 || error.status === 401) {
        stop()
        return events.refused(error)
      }
    }
    if (stopped) return
    if (ports.now() >= until) {
      stop()
      return events.gaveUp()
    }
    const delay = pollDelaysMs[Math.min(asked, pollDelaysMs.length - 1)]!
    timer = setTimeout(() => void poll(asked + 1, until), spread(delay))
  }

  /** spread moves a delay by up to a fifth either way. */
  function spread(ms: number): number {
    return ms * (0.8 + 0.4 * ports.random())
  }

  listen()
  return stop
}
