// Package payment exists so that each fen that arrives either pays an order or goes back: it asks providers for money,
// hears of it, and returns what can't be kept.
//
//	Pay      ──► payment open ──► the buyer at the provider's cashier
//	Notify   ──► payment_notice ──┐
//	AskOpen  ──► provider.Query  ─┼─► one transaction: payment captured ─► order.MarkPaid won?  yes: paid
//	CloseOpen ─► provider.Close  ─┘                                                             no:  refund asked (late, duplicate)
//	Refund   ──► one transaction: order refunding, refund asked
//	Refunder ──► provider.Refund, always with the same refund id ──► refund done, order refunded
//
// What holds, whatever comes twice, late, at once or out of order:
//
//   - A payment is captured once: the conditional update of its row is the guard, not the notice's number.
//   - A captured payment belongs to one order. Either it paid that order, or its refund was asked for in the same
//     transaction. So at rest Σ captured − Σ refunded = Σ price of paid and used orders; Reconciler looks.
//   - A captured payment is refunded at most once, and whole (UNIQUE refund.payment_id).
//   - The amount is the order's, from the database; what a client or a notice says is compared with it and never kept.
//   - A notice is stored before it is applied. One whose payment or order has no row yet is applied when it has.
//
// What can go wrong, and then:
//
//	a callback is lost                   the rungs of an unpaid order ask (AskOpen), and closing asks before it closes
//	money comes after "closed", unheard  attempts that ended are asked about once more, after ten minutes and after a day
//	a callback comes a hundred times     the first changes something, all are answered alike
//	the provider doesn't say             unknown is told apart from no: nothing is decided, and it is asked again
//	a refund's answer is lost            asked again with the same refund id, for ever, with growing pauses
//	a refund is refused                  counted, logged, and in Reconciler's report: it is for a person
package payment
