package flashsale

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tandian/internal/kit/id"
	"tandian/internal/kit/supervise"
	"tandian/internal/order"
	"tandian/internal/voucher"
)

// Reconciler compares, sale by sale, what gate, queue and SQL say of the same units (P8). It looks twice: what is on its
// way between them is another thing at the second look, and only what stays is a difference. It mends nothing by itself:
// a difference carries the step that would mend it, and Apply takes the steps of a report that somebody has seen.
type Reconciler struct {
	*Service
	Census Census // of the Service's gate
	Pause  time.Duration
	found  *prometheus.GaugeVec
}

// NewReconciler registers the metric of differences; one per process. pause lies between the two looks.
func NewReconciler(s *Service, c Census, pause time.Duration, reg prometheus.Registerer) *Reconciler {
	r := &Reconciler{Service: s, Census: c, Pause: pause, found: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "tandian_reconcile_differences",
		Help: "Units or orders of which gate and SQL say different things, by kind, at the last look. Alert on any."}, []string{"kind"})}
	reg.MustRegister(r.found)
	r.count(nil)
	return r
}

// Kind is what a difference is about. Package console says it in words.
type Kind string

const (
	KindStock     Kind = "sql_stock"   // the row's stock and its live orders don't make up what was released
	KindOversold  Kind = "oversold"    // more live orders than units released
	KindEnded     Kind = "ended_held"  // the gate holds orders that have ended, and nothing is on its way to tell it
	KindUnheld    Kind = "live_unheld" // the gate doesn't know live orders
	KindUnsettled Kind = "not_settled" // the gate waits for rows that are there
	KindNoRow     Kind = "no_row"      // the gate was told of rows that are not there
	KindSlot      Kind = "slot"        // the gate has orders in other slots than SQL
	KindUnits     Kind = "gate_units"  // the gate's stock and orders don't make up what was released
	KindWithdrawn Kind = "withdrawn"   // units set aside for a change that never came to its end
	KindTerms     Kind = "terms"       // the gate goes by old terms
)

// Kinds lists them all.
func Kinds() []Kind {
	return []Kind{KindStock, KindOversold, KindEnded, KindUnheld, KindUnsettled, KindNoRow, KindSlot, KindUnits, KindWithdrawn, KindTerms}
}

// Action is a step of a plan.
type Action string

const (
	ActNone     Action = ""
	ActSetStock Action = "set_stock" // SQL's stock becomes released − live, with an audit line
	ActRelease  Action = "release"   // the gate gives the orders' units back
	ActSettle   Action = "settle"    // the gate is told of the orders' rows
	ActReload   Action = "reload"    // the gate is built anew from SQL; only while it admits nobody and nothing is pending
	ActPutBack  Action = "put_back"  // what was set aside goes back into the gate
	ActTell     Action = "tell"      // the gate is told SQL's terms
)

var actions = map[Kind]Action{KindStock: ActSetStock, KindEnded: ActRelease, KindUnheld: ActSettle, KindUnsettled: ActSettle, KindNoRow: ActRelease,
	KindSlot: ActReload, KindUnits: ActReload, KindWithdrawn: ActPutBack, KindTerms: ActTell}

// Difference is one disagreement about a sale, and the step that mends it: from Is to ShouldBe.
type Difference struct {
	SaleID   id.ID   `json:"saleId"`
	Kind     Kind    `json:"kind"`
	Is       int64   `json:"is"`
	ShouldBe int64   `json:"shouldBe"`
	Orders   []id.ID `json:"orderIds,omitempty"`
	Action   Action  `json:"action"`
	Outcome  Outcome `json:"outcome,omitempty"`
}

// Account is what was seen of a sale at the second look.
type Account struct {
	SaleID      id.ID `json:"saleId"`
	Released    int64 `json:"released"`
	Stock       int64 `json:"stock"`
	Live        int64 `json:"live"`
	GateLoaded  bool  `json:"gateLoaded"`
	GateStock   int64 `json:"gateStock"`
	GateOrders  int64 `json:"gateOrders"`
	Pending     int64 `json:"pending"`     // in the gate, without a row
	DeadLetters int64 `json:"deadLetters"` // of those
	Releases    int64 `json:"releases"`    // on their way back to the gate
}

// Report is the outcome of a run.
type Report struct {
	At          time.Time    `json:"at"`
	QueueReady  int64        `json:"queueReady"` // reservations' messages, of all sales
	Accounts    []Account    `json:"accounts"`
	Differences []Difference `json:"differences"`
}

// row is what SQL knows of an order.
type row struct {
	ID     id.ID
	Status order.Status
	Slot   *int
}

// sums are what SQL says of a sale, in one statement: a snapshot.
type sums struct {
	Stock, StockReleased, Version, Live, Releases int64
}

// look compares once. deep = order by order although all sums agree.
func (r *Reconciler) look(ctx context.Context, saleID id.ID, deep bool) (Account, []Difference, error) {
	a := Account{SaleID: saleID}
	gate, err := r.Gate.Standing(ctx, saleID)
	if err != nil {
		return a, nil, err
	}
	a.GateLoaded, a.GateStock, a.GateOrders, a.Pending = gate.Loaded, gate.Stock, gate.Orders, gate.Pending
	var q sums
	err = r.DB.Get(ctx, r.DB.Read, &q, `SELECT s.stock, s.stock_released, s.version,
		(SELECT COUNT(*) FROM orders AS o WHERE o.sale_id = s.id AND o.slot IS NOT NULL) AS live,
		(SELECT COUNT(*) FROM gate_release AS g WHERE g.sale_id = s.id) AS releases FROM sale AS s WHERE s.id = ?`, int64(saleID))
	if errors.Is(err, sql.ErrNoRows) {
		return a, nil, voucher.ErrSaleNotFound
	}
	if err != nil {
		return a, nil, err
	}
	a.Released, a.Stock, a.Live, a.Releases = q.StockReleased, q.Stock, q.Live, q.Releases
	found := []Difference{}
	note := func(k Kind, is, shouldBe int64, orders ...id.ID) {
		if is != shouldBe {
			found = append(found, Difference{SaleID: saleID, Kind: k, Is: is, ShouldBe: shouldBe, Orders: orders, Action: actions[k]})
		}
	}
	if q.Live > q.StockReleased {
		note(KindOversold, q.Live, q.StockReleased)
	} else {
		note(KindStock, q.Stock, q.StockReleased-q.Live)
	}
	if !gate.Loaded {
		return a, found, nil
	}
	note(KindTerms, min(gate.Terms.Version, q.Version), q.Version)
	note(KindUnits, gate.Stock+gate.Orders+gate.Withdrawn, gate.Terms.Released)
	note(KindWithdrawn, gate.Withdrawn, 0)
	if !deep && gate.Pending == 0 && gate.Orders == q.Live && q.Releases == 0 {
		return a, found, nil
	}
	byKind, err := r.compareOrders(ctx, saleID)
	for _, k := range Kinds() {
		if ids := byKind[k]; len(ids) > 0 {
			slices.Sort(ids)
			note(k, int64(len(ids)), 0, ids...)
		}
	}
	return a, found, err
}

// compareOrders compares the gate's orders with the rows one by one.
func (r *Reconciler) compareOrders(ctx context.Context, saleID id.ID) (map[Kind][]id.ID, error) {
	type held struct {
		slot    int
		pending bool
	}
	gate := map[id.ID]held{}
	err := r.Census.Held(ctx, saleID, func(o order.Reservation, pending bool) { gate[o.OrderID] = held{o.Slot, pending} })
	if err != nil {
		return nil, fmt.Errorf("list the gate of sale %d: %w", saleID, err)
	}
	var rows []row
	if err := r.DB.Select(ctx, r.DB.Read, &rows, `SELECT id, status, slot FROM orders WHERE sale_id = ?`, int64(saleID)); err != nil {
		return nil, err
	}
	var leaving []id.ID
	if err := r.DB.Read.NewSelect().Table("gate_release").Column("order_id").Where("sale_id = ?", saleID).Scan(ctx, &leaving); err != nil {
		return nil, err
	}
	told := map[id.ID]bool{} // the gate will be
	for _, orderID := range leaving {
		told[orderID] = true
	}
	found := map[Kind][]id.ID{}
	note := func(k Kind, orderID id.ID) { found[k] = append(found[k], orderID) }
	for _, o := range rows {
		h, isHeld := gate[o.ID]
		delete(gate, o.ID)
		switch live := o.Status.Live(); {
		case live && !isHeld:
			note(KindUnheld, o.ID)
		case live && h.pending:
			note(KindUnsettled, o.ID)
		case live && o.Slot != nil && *o.Slot != h.slot:
			note(KindSlot, o.ID)
		case !live && isHeld && !told[o.ID]:
			note(KindEnded, o.ID)
		}
	}
	for orderID, h := range gate { // without a row
		if !h.pending {
			note(KindNoRow, orderID)
		}
	}
	return found, nil
}

// both keeps what two looks agree on: the same orders; the same numbers apart.
func both(first, second []Difference) []Difference {
	kept := []Difference{}
	for _, d := range second {
		i := slices.IndexFunc(first, func(f Difference) bool { return f.SaleID == d.SaleID && f.Kind == d.Kind })
		if i < 0 {
			continue
		}
		if d.Orders == nil {
			if first[i].Is-first[i].ShouldBe == d.Is-d.ShouldBe {
				kept = append(kept, d)
			}
			continue
		}
		d.Orders = slices.DeleteFunc(slices.Clone(d.Orders), func(orderID id.ID) bool { _, ok := slices.BinarySearch(first[i].Orders, orderID); return !ok })
		if d.Is = int64(len(d.Orders)); d.Is > 0 {
			kept = append(kept, d)
		}
	}
	return kept
}

// compare looks at the sales twice.
func (r *Reconciler) compare(ctx context.Context, sales []id.ID, deep bool) (*Report, error) {
	first := map[id.ID][]Difference{}
	accounts := map[id.ID]Account{}
	each := func(sales []id.ID, then func(Account, []Difference)) error {
		for _, saleID := range sales {
			a, found, err := r.look(ctx, saleID, deep)
			if errors.Is(err, voucher.ErrSaleNotFound) {
				continue
			}
			if err != nil {
				return fmt.Errorf("reconcile sale %d: %w", saleID, err)
			}
			then(a, found)
		}
		return nil
	}
	suspects := []id.ID{}
	err := each(sales, func(a Account, found []Difference) {
		accounts[a.SaleID] = a
		if len(found) > 0 {
			first[a.SaleID] = found
			suspects = append(suspects, a.SaleID)
		}
	})
	if err != nil {
		return nil, err
	}
	report := &Report{Differences: []Difference{}, Accounts: []Account{}}
	if len(suspects) > 0 {
		if !supervise.Sleep(ctx, r.Pause) {
			return nil, ctx.Err()
		}
		err = each(suspects, func(a Account, found []Difference) {
			accounts[a.SaleID] = a
			report.Differences = append(report.Differences, both(first[a.SaleID], found)...)
		})
		if err != nil {
			return nil, err
		}
	}
	depth, err := r.Broker.Depth(ctx, order.TopicCreate)
	if err != nil {
		r.Log.WarnContext(ctx, "queue depth not known", "err", err)
	}
	report.At, report.QueueReady = r.Now(), depth.Ready+depth.Unacked
	if err := r.countLetters(ctx, accounts); err != nil {
		return nil, err
	}
	for _, saleID := range slices.Sorted(maps.Keys(accounts)) {
		report.Accounts = append(report.Accounts, accounts[saleID])
	}
	return report, nil
}

// countLetters adds how many of the pending reservations are dead letters.
func (r *Reconciler) countLetters(ctx context.Context, accounts map[id.ID]Account) error {
	dead, err := order.DeadReservations(ctx, r.DB.Read)
	for _, d := range dead {
		if a, ok := accounts[d.SaleID]; ok {
			a.DeadLetters++
			accounts[d.SaleID] = a
		}
	}
	return err
}

// count shows the differences of a look over all sales as metrics.
func (r *Reconciler) count(found []Difference) {
	sums := map[Kind]float64{}
	for _, d := range found {
		sums[d.Kind] += float64(max(d.Is-d.ShouldBe, d.ShouldBe-d.Is))
	}
	for _, k := range Kinds() {
		r.found.WithLabelValues(string(k)).Set(sums[k])
	}
}

// LogValue shows a difference in the log.
func (d Difference) LogValue() slog.Value {
	return slog.GroupValue(slog.String("sale", d.SaleID.String()), slog.String("kind", string(d.Kind)), slog.Int64("is", d.Is), slog.Int64("shouldBe", d.ShouldBe))
}
