/**
 * Names for the shapes the pages use, taken from the operations rather than
 * from the document's schema names, which belong to the server.
 */
import type { paths } from './schema'

type Body<Response> = Response extends { content: { 'application/json': infer T } } ? T : never
type Read<Path extends keyof paths, Status extends number = 200> = paths[Path] extends {
  get: { responses: infer R }
}
  ? Status extends keyof R
    ? Body<R[Status]>
    : never
  : never

export type Order = Read<'/api/v1/orders/{id}'>
export type OrderStatus = Order['status']
/** The server lists no failed orders; the page puts one there when it hears of it. */
export type MyOrder = { orderId: string; status: OrderStatus }
export type Sale = Omit<Read<'/api/v1/sales/{id}'>, 'mine'> & { mine?: MyOrder[] | null }
export type Shop = Read<'/api/v1/shops/{id}'>
export type Voucher = NonNullable<Read<'/api/v1/shops/{id}/vouchers'>['items']>[number]
export type Redemption = Read<'/api/v1/redemptions/{code}'>
export type Me = Read<'/api/v1/me'>
export type Category = NonNullable<Read<'/api/v1/categories'>['items']>[number]
