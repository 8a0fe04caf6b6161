package flashsale

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"tandian/internal/kit/audit"
	"tandian/internal/kit/errs"
	"tandian/internal/kit/id"
	"tandian/internal/kit/store"
	"tandian/internal/order"
	"tandian/internal/voucher"
)

// Reconciliation is a run that was kept: its id names the plan to mend what it found.
type Reconciliation struct {
	bun.BaseModel `bun:"table:reconciliation"`

	ID          id.ID `bun:",pk,autoincrement"`
	At          int64 // Unix ms
	ActorID     id.ID // 0 = the program itself
	Sales       int   // looked at
	Differences int
	Body        []byte `bun:"report"`
	AppliedAt   int64  // Unix ms, 0 = not
	AppliedBy   id.ID
}

// Report is what the run found and, after Apply, what became of each step.
func (r *Reconciliation) Report() (*Report, error) {
	report := &Report{}
	err := json.Unmarshal(r.Body, report)
	return report, err
}

var (
	// ErrNoReconciliation answers an id that no run has.
	ErrNoReconciliation = errs.Define("reconciliation.not_found", errs.NotFound, "没有这次核对。", "No such reconciliation.")
	// ErrPlanUsed answers a plan that can't be carried out: it has been already, or there is nothing in it.
	ErrPlanUsed = errs.Define("reconciliation.nothing_to_apply", errs.Conflict, "这次核对没有可执行的计划，或已经执行过；请重新核对。",
		"This reconciliation has no plan left to apply; run another.")
)

const (
	runsKept    = 500
	reachBack   = 24 * time.Hour // past its end a sale is looked at by the worker
	applyAtOnce = time.Minute    // bounds Apply once it has begun
)

// Turn is the worker: it compares the sales that are open, loaded or have ended lately, keeps what it found if it found
// something, and shows it as metrics.
func (r *Reconciler) Turn(ctx context.Context) error {
	sales, err := voucher.FindOpenSales(ctx, r.DB.Read, r.Now().Add(-reachBack))
	if err != nil {
		return fmt.Errorf("reconcile: %w", err)
	}
	loaded, err := r.Gate.Loaded(ctx)
	if err != nil {
		return fmt.Errorf("reconcile: %w", err)
	}
	sales = slices.Compact(slices.Sorted(slices.Values(append(sales, loaded...))))
	report, err := r.compare(ctx, sales, false)
	if err != nil {
		return err
	}
	r.count(report.Differences)
	if len(report.Differences) == 0 {
		return nil
	}
	kept, err := r.keep(ctx, report, 0)
	if err != nil {
		return err
	}
	r.Log.ErrorContext(ctx, "gate and database disagree; see tandian reconcile", "reconciliation", kept.ID, "differences", report.Differences)
	return nil
}

// Run compares one sale, or all if saleID is 0, order by order, and keeps the report. It returns voucher.ErrSaleNotFound.
func (r *Reconciler) Run(ctx context.Context, saleID, actor id.ID) (*Reconciliation, error) {
	sales := []id.ID{saleID}
	var err error
	if saleID == 0 {
		sales, err = voucher.FindOpenSales(ctx, r.DB.Read, time.Time{})
	} else {
		_, err = voucher.FindOffer(ctx, r.DB, r.DB.Read, saleID)
	}
	if err != nil {
		return nil, err
	}
	report, err := r.compare(ctx, sales, true)
	if err != nil {
		return nil, err
	}
	if saleID == 0 {
		r.count(report.Differences)
	}
	return r.keep(ctx, report, actor)
}

func (r *Reconciler) keep(ctx context.Context, report *Report, actor id.ID) (*Reconciliation, error) {
	body, err := json.Marshal(report)
	if err != nil {
		return nil, err
	}
	kept := &Reconciliation{At: store.Millis(report.At), ActorID: actor, Sales: len(report.Accounts), Differences: len(report.Differences), Body: body}
	err = r.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewInsert().Model(kept).Exec(ctx); err != nil {
			return err
		}
		return store.Exec(ctx, tx, `DELETE FROM reconciliation WHERE id <= ?`, int64(kept.ID)-runsKept)
	})
	return kept, err
}

// Find returns ErrNoReconciliation if there is no run of that id.
func (r *Reconciler) Find(ctx context.Context, runID id.ID) (*Reconciliation, error) {
	kept := &Reconciliation{}
	err := r.DB.Get(ctx, r.DB.Read, kept, `SELECT * FROM reconciliation WHERE id = ?`, int64(runID))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNoReconciliation
	}
	return kept, err
}

// List returns up to limit runs, the newest first, below the id before (0 = from the newest on), without their reports.
func (r *Reconciler) List(ctx context.Context, before id.ID, limit int) ([]Reconciliation, error) {
	var runs []Reconciliation
	q := r.DB.Read.NewSelect().Model(&runs).ExcludeColumn("report").Order("id DESC").Limit(int64(limit))
	if before > 0 {
		q = q.Where("id < ?", before)
	}
	return runs, q.Scan(ctx)
}

// Outcome is what became of a step.
type Outcome string

const (
	Done    Outcome = "done"
	Changed Outcome = "changed" // the difference is no longer what was previewed: nothing was done
	Blocked Outcome = "blocked" // the sale must be paused and its queue empty first
	NoStep  Outcome = "no_step" // nothing but a person can mend this
	NotDone Outcome = "failed"  // the log says why; it may have been done in part
)

// Apply carries out the plan of a run: the steps that were previewed and no others, each only if its difference is still
// the same. A plan can be applied once. It returns ErrNoReconciliation or ErrPlanUsed.
func (r *Reconciler) Apply(ctx context.Context, runID, actor id.ID) (*Reconciliation, error) {
	kept, err := r.Find(ctx, runID)
	if err != nil {
		return nil, err
	}
	report, err := kept.Report()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), applyAtOnce)
	defer cancel()
	err = r.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		n, err := store.Affected(ctx, tx, `UPDATE reconciliation SET applied_at = ?, applied_by = ? WHERE id = ? AND applied_at = 0 AND differences > 0`,
			store.Millis(r.Now()), int64(actor), int64(runID))
		if err == nil && n == 0 {
			err = ErrPlanUsed
		}
		if err != nil {
			return err
		}
		return audit.Write(ctx, tx, audit.Entry{At: r.Now(), Actor: actor, Action: "reconciliation.apply", Subject: "reconciliation:" + runID.String(),
			Detail: map[string]any{"differences": len(report.Differences)}})
	})
	if err != nil {
		return nil, err
	}
	for i := range report.Differences {
		d := &report.Differences[i]
		if d.Outcome, err = r.mend(ctx, *d); err != nil {
			d.Outcome = NotDone
			r.Log.ErrorContext(ctx, "a step of a plan failed", "reconciliation", runID, "difference", *d, "action", d.Action, "err", err)
		}
	}
	body, err := json.Marshal(report)
	if err != nil {
		return nil, err
	}
	if err := store.Exec(ctx, r.DB.Write, `UPDATE reconciliation SET report = ? WHERE id = ?`, body, int64(runID)); err != nil {
		return nil, err
	}
	return r.Find(ctx, runID)
}

// mend takes one step if its difference is still there.
func (r *Reconciler) mend(ctx context.Context, previewed Difference) (Outcome, error) {
	if previewed.Action == ActNone {
		return NoStep, nil
	}
	_, now, err := r.look(ctx, previewed.SaleID, true)
	if err != nil {
		return "", err
	}
	still := both([]Difference{previewed}, now)
	if len(still) == 0 {
		return Changed, nil
	}
	d := still[0]
	switch d.Action {
	case ActSetStock:
		return r.setStock(ctx, d)
	case ActRelease:
		for _, orderID := range d.Orders {
			if err := r.Release(ctx, d.SaleID, orderID, d.Kind == KindNoRow); err != nil {
				return "", err
			}
		}
	case ActSettle:
		return r.settleRows(ctx, d)
	case ActReload:
		return r.reload(ctx, d.SaleID)
	case ActPutBack:
		if _, err := r.Gate.Withdraw(ctx, d.SaleID, -d.Is); err != nil {
			return "", err
		}
	case ActTell:
		offer, err := voucher.FindOffer(ctx, r.DB, r.DB.Read, d.SaleID)
		if err != nil {
			return "", err
		}
		return Done, r.Gate.Change(ctx, r.terms(offer))
	}
	return Done, nil
}

// setStock makes the row's stock what its orders leave of it, unless the difference has become another one: under the
// row's lock, so that no writer is between its orders and their stock.
func (r *Reconciler) setStock(ctx context.Context, d Difference) (Outcome, error) {
	delta := d.ShouldBe - d.Is
	err := r.changeRow(ctx, d.SaleID, "sale.stock_corrected", map[string]any{"delta": delta}, func(ctx context.Context, tx bun.Tx, _ *voucher.Offer) error {
		n, err := store.Affected(ctx, tx, `UPDATE sale SET stock = stock + ? WHERE id = ? AND stock + ? = stock_released - (SELECT COUNT(*) FROM orders AS o WHERE o.sale_id = sale.id AND o.slot IS NOT NULL)`,
			delta, int64(d.SaleID), delta)
		if err == nil && n == 0 {
			err = errChanged
		}
		return err
	})
	if errors.Is(err, errChanged) {
		return Changed, nil
	}
	return Done, err
}

var errChanged = errors.New("flashsale: the difference is another one now")

// settleRows tells the gate of the live rows among the orders.
func (r *Reconciler) settleRows(ctx context.Context, d Difference) (Outcome, error) {
	var rows []order.Order
	if err := r.DB.Read.NewSelect().Model(&rows).Where("id IN (?) AND slot IS NOT NULL", bun.List(d.Orders)).Scan(ctx); err != nil {
		return "", err
	}
	live := make([]order.Reservation, len(rows))
	for i, o := range rows {
		live[i] = o.Reservation()
	}
	return Done, r.Settle(ctx, live)
}

// reload builds the gate anew under a raised epoch. What is on its way would be lost to it until it has rows, so it is
// done only while nobody is admitted and nothing is pending.
func (r *Reconciler) reload(ctx context.Context, saleID id.ID) (Outcome, error) {
	gate, err := r.Gate.Standing(ctx, saleID)
	if err != nil {
		return "", err
	}
	now := r.Now()
	open := !gate.Terms.Paused && !now.Before(gate.Terms.BeginsAt) && now.Before(gate.Terms.EndsAt)
	if gate.Loaded && (open || gate.Pending > 0) {
		return Blocked, nil
	}
	if err := r.Gate.Unload(ctx, saleID); err != nil {
		return "", err
	}
	return Done, r.load(ctx, saleID)
}
