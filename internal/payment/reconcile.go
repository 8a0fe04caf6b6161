package payment

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"tandian/internal/kit/id"
	"tandian/internal/kit/money"
	"tandian/internal/kit/store"
)

// Kind names a way in which money and orders can disagree (I5).
type Kind string

const (
	KindUnpaid     Kind = "unpaid"     // a paid or used order whose money isn't here
	KindAmount     Kind = "amount"     // a paid or used order that kept another amount than its price
	KindKept       Kind = "kept"       // money kept that pays no order
	KindNoRefund   Kind = "no_refund"  // an order being refunded, or refunded, without a refund to show for it
	KindOrder      Kind = "order"      // a refund of an order that isn't being refunded
	KindRefused    Kind = "refused"    // a refund that the provider refuses: the buyer is owed his money
	KindStuck      Kind = "stuck"      // a refund that nobody has answered for long
	KindUncaptured Kind = "uncaptured" // a refund of money that never came, or of another amount
	KindNotice     Kind = "notice"     // a notification that waits for a payment or an order
	KindTotals     Kind = "totals"     // the sums disagree, and no single order shows why
)

const (
	stuckAfter  = time.Hour
	noticeAfter = time.Minute
	noticeFor   = 7 * 24 * time.Hour // how long a contradiction is shown
	mostPerKind = 100                // differences listed of each kind
)

// Kinds lists every Kind.
func Kinds() []Kind {
	return []Kind{KindUnpaid, KindAmount, KindKept, KindNoRefund, KindOrder, KindRefused, KindStuck, KindUncaptured, KindNotice, KindTotals}
}

// Difference is one disagreement. Ids that don't apply are 0.
type Difference struct {
	Kind      Kind
	OrderID   id.ID
	PaymentID id.ID
	RefundID  id.ID
	Is        money.Fen
	ShouldBe  money.Fen
}

// Totals are the sums that must agree: Captured − Refunded − Asked = Paid.
type Totals struct {
	Captured  money.Fen // what came
	Refunded  money.Fen // what went back
	Asked     money.Fen // what is on its way back, or was refused and is owed
	Paid      money.Fen // the price of paid and used orders
	Payments  int64     // captured ones
	Orders    int64     // paid and used ones
	OpenTries int64     // attempts that may still bring money
}

// Report is what a look at all money found.
type Report struct {
	At          int64 // Unix ms
	Totals      Totals
	Differences []Difference
}

// Reconcile compares money with orders, in one snapshot. It changes nothing and asks no provider.
func (s *Service) Reconcile(ctx context.Context) (*Report, error) {
	tx, err := s.DB.Read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, fmt.Errorf("reconcile money: %w", err)
	}
	defer tx.Rollback() // nothing is written
	r := &Report{At: store.Millis(s.Now()), Differences: []Difference{}}
	if err := r.look(ctx, s.DB, tx); err != nil {
		return nil, fmt.Errorf("reconcile money: %w", err)
	}
	return r, nil
}

func (r *Report) look(ctx context.Context, db *store.DB, tx bun.Tx) error {
	if err := db.Get(ctx, tx, &r.Totals, totalsQuery, 0); err != nil {
		return err
	}
	for _, kind := range Kinds() {
		l, ok := looks[kind]
		if !ok {
			continue
		}
		var found []Difference
		if err := db.Select(ctx, tx, &found, l.query+` LIMIT ?`, append(l.args(r.At), mostPerKind)...); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		for _, d := range found {
			d.Kind = kind
			r.Differences = append(r.Differences, d)
		}
	}
	if t := r.Totals; t.Captured-t.Refunded-t.Asked != t.Paid && !slices.ContainsFunc(r.Differences, Difference.moves) {
		r.Differences = append(r.Differences, Difference{Kind: KindTotals, Is: t.Captured - t.Refunded - t.Asked, ShouldBe: t.Paid})
	}
	return nil
}

// moves reports whether the difference explains that the sums disagree.
func (d Difference) moves() bool {
	return d.Kind != KindRefused && d.Kind != KindStuck && d.Kind != KindNotice
}

// totalsQuery takes an argument that changes nothing: queries with arguments are the ones that stay parsed.
const totalsQuery = `SELECT
	(SELECT COALESCE(SUM(amount), 0) + ? FROM payment WHERE status = 2) AS captured,
	(SELECT COUNT(*) FROM payment WHERE status = 2) AS payments,
	(SELECT COUNT(*) FROM payment WHERE status = 1) AS open_tries,
	(SELECT COALESCE(SUM(amount), 0) FROM refund WHERE status = 2) AS refunded,
	(SELECT COALESCE(SUM(amount), 0) FROM refund WHERE status <> 2) AS asked,
	(SELECT COALESCE(SUM(amount), 0) FROM orders WHERE status IN (2, 3)) AS paid,
	(SELECT COUNT(*) FROM orders WHERE status IN (2, 3)) AS orders`

// look finds the differences of one kind.
type look struct {
	query string
	args  func(now int64) []any
}

func nothing(int64) []any { return nil }

// kept is what an order's captured payments leave after those that go back.
const kept = `(SELECT COALESCE(SUM(p.amount), 0) FROM payment AS p WHERE p.order_id = o.id AND p.status = 2 AND NOT EXISTS (SELECT 1 FROM refund AS r WHERE r.payment_id = p.id))`

var looks = map[Kind]look{
	KindUnpaid: {`SELECT o.id AS order_id, 0 AS payment_id, 0 AS refund_id, 0 AS ` + "`is`" + `, o.amount AS should_be FROM orders AS o
		WHERE o.status IN (2, 3) AND NOT EXISTS (SELECT 1 FROM payment AS p WHERE p.order_id = o.id AND p.status = 2 AND NOT EXISTS (SELECT 1 FROM refund AS r WHERE r.payment_id = p.id))
		ORDER BY o.id`, nothing},
	KindAmount: {`SELECT o.id AS order_id, 0 AS payment_id, 0 AS refund_id, ` + kept + ` AS ` + "`is`" + `, o.amount AS should_be FROM orders AS o
		WHERE o.status IN (2, 3) AND EXISTS (SELECT 1 FROM payment AS p WHERE p.order_id = o.id AND p.status = 2 AND NOT EXISTS (SELECT 1 FROM refund AS r WHERE r.payment_id = p.id))
		AND ` + kept + ` <> o.amount ORDER BY o.id`, nothing},
	KindKept: {`SELECT p.order_id, p.id AS payment_id, 0 AS refund_id, p.amount AS ` + "`is`" + `, 0 AS should_be FROM payment AS p LEFT JOIN orders AS o ON o.id = p.order_id
		WHERE p.status = 2 AND (o.id IS NULL OR o.status NOT IN (2, 3)) AND NOT EXISTS (SELECT 1 FROM refund AS r WHERE r.payment_id = p.id) ORDER BY p.id`, nothing},
	KindNoRefund: {`SELECT o.id AS order_id, 0 AS payment_id, 0 AS refund_id, 0 AS ` + "`is`" + `, o.amount AS should_be FROM orders AS o
		WHERE (o.status = 5 AND NOT EXISTS (SELECT 1 FROM refund AS r WHERE r.order_id = o.id AND r.reason IN ('buyer', 'operator', 'expired') AND r.status <> 2))
		OR (o.status = 6 AND NOT EXISTS (SELECT 1 FROM refund AS r WHERE r.order_id = o.id AND r.reason IN ('buyer', 'operator', 'expired') AND r.status = 2)) ORDER BY o.id`, nothing},
	KindOrder: {`SELECT r.order_id, r.payment_id, r.id AS refund_id, r.amount AS ` + "`is`" + `, 0 AS should_be FROM refund AS r LEFT JOIN orders AS o ON o.id = r.order_id
		WHERE r.reason IN ('buyer', 'operator', 'expired') AND (o.id IS NULL OR o.status NOT IN (5, 6)) ORDER BY r.id`, nothing},
	KindRefused: {`SELECT r.order_id, r.payment_id, r.id AS refund_id, 0 AS ` + "`is`" + `, r.amount AS should_be FROM refund AS r WHERE r.status = 3 ORDER BY r.id`, nothing},
	KindStuck: {`SELECT r.order_id, r.payment_id, r.id AS refund_id, 0 AS ` + "`is`" + `, r.amount AS should_be FROM refund AS r WHERE r.status = 1 AND r.created_at <= ? ORDER BY r.id`,
		func(now int64) []any { return []any{now - stuckAfter.Milliseconds()} }},
	KindUncaptured: {`SELECT r.order_id, r.payment_id, r.id AS refund_id, r.amount AS ` + "`is`" + `, COALESCE(p.amount, 0) AS should_be FROM refund AS r LEFT JOIN payment AS p ON p.id = r.payment_id AND p.status = 2
		WHERE p.id IS NULL OR p.amount <> r.amount OR p.order_id <> r.order_id ORDER BY r.id`, nothing},
	KindNotice: {`SELECT n.order_id, n.payment_id, 0 AS refund_id, 0 AS ` + "`is`" + `, 0 AS should_be FROM payment_notice AS n
		WHERE (n.applied_at IS NULL AND n.received_at <= ?) OR (n.outcome = 'mismatch' AND n.received_at > ?) ORDER BY n.received_at`,
		func(now int64) []any { return []any{now - noticeAfter.Milliseconds(), now - noticeFor.Milliseconds()} }},
}
