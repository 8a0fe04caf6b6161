package console

import (
	"context"
	"time"

	"tandian/internal/kit/api"
	"tandian/internal/kit/id"
	"tandian/internal/kit/money"
	"tandian/internal/kit/store"
	"tandian/internal/payment"
)

// moneyJSON is a look at all money (I5).
type moneyJSON struct {
	At       time.Time             `json:"at"`
	Captured money.Fen             `json:"captured" doc:"What came"`
	Refunded money.Fen             `json:"refunded" doc:"What went back"`
	Asked    money.Fen             `json:"asked" doc:"What is on its way back, or is owed"`
	Paid     money.Fen             `json:"paid" doc:"The price of paid and used orders: captured − refunded − asked"`
	Payments int64                 `json:"payments" doc:"That have brought money"`
	Orders   int64                 `json:"orders" doc:"Paid and used ones"`
	Open     int64                 `json:"open" doc:"Attempts to pay that may still bring money"`
	Found    []moneyDifferenceJSON `json:"found" nullable:"false" doc:"At most 100 of each kind"`
}

// moneyDifferenceJSON is one disagreement of money and orders.
type moneyDifferenceJSON struct {
	Kind      string    `json:"kind" enum:"unpaid,amount,kept,no_refund,order,refused,stuck,uncaptured,notice,totals"`
	Cause     string    `json:"cause" doc:"In words, in the language of Accept-Language"`
	OrderID   id.ID     `json:"orderId,omitempty"`
	PaymentID id.ID     `json:"paymentId,omitempty"`
	RefundID  id.ID     `json:"refundId,omitempty"`
	Is        money.Fen `json:"is"`
	ShouldBe  money.Fen `json:"shouldBe"`
}

func (s *Service) money(ctx context.Context, _ *struct{}) (*struct{ Body moneyJSON }, error) {
	if err := mayLook(ctx); err != nil {
		return nil, err
	}
	r, err := s.Money.Reconcile(ctx)
	if err != nil {
		return nil, err
	}
	lang := api.RequestOf(ctx).Language()
	t := r.Totals
	out := &struct{ Body moneyJSON }{moneyJSON{At: api.Wire(store.Time(r.At)), Captured: t.Captured, Refunded: t.Refunded, Asked: t.Asked, Paid: t.Paid,
		Payments: t.Payments, Orders: t.Orders, Open: t.OpenTries, Found: []moneyDifferenceJSON{}}}
	for _, d := range r.Differences {
		out.Body.Found = append(out.Body.Found, moneyDifferenceJSON{Kind: string(d.Kind), Cause: moneyCauses[d.Kind].in(lang, d.Is, d.ShouldBe),
			OrderID: d.OrderID, PaymentID: d.PaymentID, RefundID: d.RefundID, Is: d.Is, ShouldBe: d.ShouldBe})
	}
	return out, nil
}

// moneyCauses say of each kind what was seen; the verbs are what is, and what should be.
var moneyCauses = map[payment.Kind]text{
	payment.KindUnpaid:     {"订单显示已支付，但账上是 %v，应有 %v", "The order counts as paid, and %v of %v is here"},
	payment.KindAmount:     {"订单留下的款项是 %v，价格是 %v", "The order has kept %v; its price is %v"},
	payment.KindKept:       {"收到 %v，没有对应的已支付订单，也没有退款（应留 %v）", "%v came that pays no order, and no refund was asked for (should be kept: %v)"},
	payment.KindNoRefund:   {"订单在退款或已退款，但没有退款记录：是 %v，应为 %v", "The order is being refunded, or was, without a refund: %v of %v"},
	payment.KindOrder:      {"订单不在退款中，却有一笔退款 %v（应为 %v）", "A refund of %v for an order that isn't being refunded (should be %v)"},
	payment.KindRefused:    {"支付渠道拒绝退款，已退 %v，应退 %v：请运营再次申请，或人工退还", "The provider refuses the refund; %v of %v has gone back: have an operator refund the order again, or pay it back by hand"},
	payment.KindStuck:      {"退款一小时仍无结果：已退 %v，应退 %v", "The refund has had no answer for an hour: %v of %v has gone back"},
	payment.KindUncaptured: {"退款 %v 与收款 %v 不符", "The refund is %v; what came is %v"},
	payment.KindNotice:     {"支付通知没有对应的订单，或与订单不符（%v，%v）", "A notification waits for its order, or contradicts it (%v, %v)"},
	payment.KindTotals:     {"合计不符：留下 %v，订单合计 %v", "The sums disagree: %v was kept, orders make %v"},
}
