/**
 * ApiError is every way a call can fail. `code` is the server's stable problem
 * code, or one of the client's own: `client.network` (no reply arrived),
 * `client.timeout`, `client.unreadable` (a reply that is not ours).
 */
export class ApiError extends Error {
  constructor(
    readonly code: string,
    /** HTTP status; 0 when no reply arrived. */
    readonly status: number,
    readonly retryAfterMs?: number,
    readonly requestId?: string,
    readonly orderIds: string[] = [],
    /** With `redeem.used`: when. */
    readonly redeemedAt?: string,
  ) {
    super(code)
    this.name = 'ApiError'
  }
}

/** fromReply reads an RFC 9457 body; anything else becomes `client.unreadable`. */
export function fromReply(response: Response, body: unknown): ApiError {
  const problem = (typeof body === 'object' && body !== null ? body : {}) as Record<string, unknown>
  return new ApiError(
    typeof problem.code === 'string' ? problem.code : 'client.unreadable',
    response.status,
    typeof problem.retryAfterMs === 'number' ? problem.retryAfterMs : retryAfterHeader(response),
    typeof problem.requestId === 'string' ? problem.requestId : undefined,
    Array.isArray(problem.orderIds) ? problem.orderIds.map(String) : [],
    typeof problem.redeemedAt === 'string' ? problem.redeemedAt : undefined,
  )
}

/** fromThrown turns what fetch threw into an ApiError. */
export function fromThrown(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown
  const timedOut = thrown instanceof DOMException && thrown.name === 'TimeoutError'
  return new ApiError(timedOut ? 'client.timeout' : 'client.network', 0)
}

function retryAfterHeader(response: Response): number | undefined {
  const seconds = Number(response.headers.get('Retry-After') ?? NaN)
  return Number.isFinite(seconds) ? seconds * 1000 : undefined
}
