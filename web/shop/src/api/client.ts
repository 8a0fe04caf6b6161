import createClient from 'openapi-fetch'
import { fromReply, fromThrown } from './problem'
import type { paths } from './schema'

/** A reply that takes longer is worth less than a retry button. */
const replyTimeoutMs = 15_000

/**
 * The typed client. The session travels in an HttpOnly cookie of the same
 * origin, so there is no token here to keep or to lose.
 */
export const api = createClient<paths>({
  baseUrl: '/',
  credentials: 'same-origin',
  fetch: (request) => fetch(request, { signal: AbortSignal.timeout(replyTimeoutMs) }),
})

api.use({
  onRequest({ request }) {
    request.headers.set('Accept-Language', document.documentElement.lang)
    return request
  },
})

type Reply<T> = { data?: T; error?: unknown; response: Response }

/**
 * unwrap returns the body of a successful reply and throws an ApiError for
 * everything else.
 */
export async function unwrap<T>(call: Promise<Reply<T>>): Promise<T> {
  let reply: Reply<T>
  try {
    reply = await call
  } catch (thrown) {
    throw fromThrown(thrown)
  }
  if (!reply.response.ok) throw fromReply(reply.response, reply.error)
  return reply.data as T
}
