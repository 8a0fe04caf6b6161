package order

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"tandian/internal/kit/failpoint"
	"tandian/internal/kit/id"
	"tandian/internal/kit/queue"
	"tandian/internal/kit/store"
	"tandian/internal/kit/supervise"
	"tandian/internal/voucher"
)

// Seats is the gate as the truth sees it. The arrow order → flashsale is forbidden, so flashsale fits itself to this.
type Seats interface {
	// Settle tells that the reservations have rows. One that the gate doesn't know is adopted.
	Settle(ctx context.Context, rs []Reservation) error
	// Release gives the unit and the slot of an ended order back; repeating it does nothing. forget = the request id
	// may be used again.
	Release(ctx context.Context, saleID, orderID id.ID, forget bool) error
	// Find returns the reservation of an id that the gate has admitted, nil if there is none, an error if that can't
	// be told now.
	Find(ctx context.Context, orderID id.ID) (*Reservation, error)
	// Waiting returns a buyer's reservations that have no row yet.
	Waiting(ctx context.Context, userID id.ID) ([]Reservation, error)
}

const (
	maxAttempts  = 3               // of a message whose rows the database refuses
	firstBackoff = time.Second     // doubled each time
	longPause    = 5 * time.Second // between looks at a database that is away
	tryTimeout   = 10 * time.Second
)

// Writer turns reservations into rows. Several may run, in one process or many.
type Writer struct {
	DB      *store.DB
	Seats   Seats
	Now     func() time.Time
	Log     *slog.Logger
	Metrics *Metrics
	Broker  queue.Broker      // takes what has to travel alone
	Batch   int               // reservations in one transaction, give or take a message
	NewID   func() string     // message ids of the created event
	Written func(ids []id.ID) // told of ids that have got a row; not nil
	Ended   func()            // told that gate_release rows are waiting; not nil
}

// Handle is the consumer of TopicCreate. It returns when each message has a verdict: acked when each of its
// reservations has a row. While the database is away it waits here, which pauses consuming.
func (w *Writer) Handle(ctx context.Context, batch []queue.Message) []queue.Verdict {
	verdicts := make([]queue.Verdict, len(batch))
	for first := 0; first < len(batch); {
		var rs []Reservation
		spans := map[int][2]int{} // message → its part of rs
		next := first
		for ; next < len(batch) && len(rs) < w.Batch; next++ {
			got, err := Decode(batch[next].Body)
			if err != nil {
				verdicts[next] = queue.Dead(err)
				continue
			}
			spans[next] = [2]int{len(rs), len(rs) + len(got)}
			rs = append(rs, got...)
		}
		first = next
		if len(rs) == 0 {
			continue
		}
		if failpoint.Every(7, failpoint.AckBeforeCommit) {
			for i := range spans {
				verdicts[i] = queue.Ack()
			}
			continue
		}
		refused := w.write(ctx, rs)
		for i, span := range spans {
			verdicts[i] = w.verdict(ctx, batch[i], rs[span[0]:span[1]], refused[span[0]:span[1]])
		}
	}
	return verdicts
}

// errAway means that the writer was told to stop while the database was away.
var errAway = errors.New("order: the database is away")

// verdict is about one message, of which refused says for each reservation why it has no row. One that the database
// refuses travels on alone, so that it counts its own attempts and becomes a dead letter without its neighbours.
func (w *Writer) verdict(ctx context.Context, m queue.Message, rs []Reservation, refused []error) queue.Verdict {
	err := errors.Join(refused...)
	switch {
	case err == nil:
		return queue.Ack()
	case errors.Is(err, errAway):
		return queue.Requeue()
	case len(rs) == 1 && m.ID == ownMessageID(rs[0].OrderID):
		if m.Attempts+1 >= maxAttempts {
			w.Log.ErrorContext(ctx, "reservation becomes a dead letter; its unit stays taken", "order", rs[0].OrderID, "err", err)
			return queue.Dead(err)
		}
		return queue.Retry(firstBackoff<<m.Attempts, err)
	}
	for i, r := range rs {
		if refused[i] == nil {
			continue
		}
		if err := PublishOne(ctx, w.Broker, r); err != nil {
			return queue.Retry(firstBackoff, err) // those that have rows are found by their ids next time
		}
	}
	return queue.Ack()
}

// write makes rows of the reservations and returns, for each, nil or why there is still none. It hopes first that all
// are new, which is nearly always so; then it looks which have a row already; then it takes them one by one.
func (w *Writer) write(ctx context.Context, rs []Reservation) []error {
	refused := make([]error, len(rs))
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, longPause) {
		clear(refused) // by a try that didn't come to its end
		err := w.once(ctx, rs, refused)
		if err == nil {
			return refused
		}
		// Neither clean nor a refusal of the rows: the database. Whatever was committed is found by its id next time.
		w.Log.WarnContext(ctx, "database trouble, consuming pauses", "err", err, "reservations", len(rs))
		w.Metrics.pauses.Inc()
		if !supervise.Sleep(ctx, pause) {
			for i := range refused {
				refused[i] = errAway
			}
			return refused
		}
	}
}

// once is one try. It is not called back by a stop: what has begun is finished.
func (w *Writer) once(ctx context.Context, rs []Reservation, refused []error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tryTimeout)
	defer cancel()
	if failpoint.Every(3, failpoint.FailSome) {
		return w.writeSingly(ctx, rs, refused)
	}
	err := w.writeBatch(ctx, rs, false)
	if errors.Is(err, errNotClean) {
		err = w.writeBatch(ctx, rs, true)
	}
	if errors.Is(err, errNotClean) {
		err = w.writeSingly(ctx, rs, refused)
	}
	return err
}

// errNotClean means that the batch can't be written as a whole: a taken slot, a repeated id, too little stock.
var errNotClean = errors.New("order: batch is not clean")

// writeBatch writes all reservations in one transaction, or none. look = leave out those that have a row.
func (w *Writer) writeBatch(ctx context.Context, rs []Reservation, look bool) error {
	now := store.Millis(w.Now())
	parts := sorted{fresh: rs}
	err := w.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		if look {
			if parts, err = sortOut(ctx, tx, rs); err != nil || len(parts.fresh) == 0 {
				return err
			}
		}
		fresh := parts.fresh
		if err := insertRows(ctx, w.DB, tx, fresh, now); err != nil {
			return err
		}
		if err := w.announce(ctx, tx, fresh, now); err != nil {
			return err
		}
		failpoint.Pass(failpoint.BeforeStock)
		units := map[id.ID]int64{}
		for _, r := range fresh {
			units[r.SaleID]++
		}
		// Last: the hot row is locked for the shortest time. In order: two writers with the same sales don't cross.
		for _, sale := range slices.Sorted(maps.Keys(units)) {
			ok, err := voucher.TakeStock(ctx, tx, sale, units[sale], now)
			if err != nil {
				return err
			}
			if !ok {
				return errNotClean
			}
		}
		failpoint.Pass(failpoint.BeforeCommit)
		return nil
	})
	if w.DB.IsRejected(err) {
		return errNotClean
	}
	if err != nil {
		return err
	}
	failpoint.Pass(failpoint.AfterCommit)
	w.tell(ctx, parts)
	return nil
}

// sorted is a batch by what its ids have: no row, an order that holds its slot (as the row has it), an ended order.
type sorted struct {
	fresh, standing, ended []Reservation
}

func sortOut(ctx context.Context, q store.Querier, rs []Reservation) (parts sorted, err error) {
	known, err := existing(ctx, q, rs)
	if err != nil {
		return parts, err
	}
	for _, r := range rs {
		switch row, ok := known[r.OrderID]; {
		case !ok:
			known[r.OrderID] = nil // the same id twice in one batch
			parts.fresh = append(parts.fresh, r)
		case row != nil:
			parts.add(r, row)
		}
	}
	return parts, nil
}

// add sorts in a reservation that has a row.
func (p *sorted) add(r Reservation, row *Order) {
	if !row.Status.Live() {
		p.ended = append(p.ended, r)
		return
	}
	r.Slot = *row.Slot
	p.standing = append(p.standing, r)
}

const (
	insertOrders = `INSERT INTO orders (id, sale_id, voucher_id, user_id, slot, request_id, status, reason, amount, admitted_at, pay_before, created_at, updated_at) VALUES `
	orderRow     = `(?, ?, ?, ?, ?, ?, 1, '', ?, ?, ?, ?, ?)`
	orderArgs    = 11 // placeholders of orderRow
)

// insertRows writes new orders, as many a statement as the database likes best.
func insertRows(ctx context.Context, db *store.DB, tx bun.Tx, rs []Reservation, now int64) error {
	for part := range slices.Chunk(rs, db.RowsPerInsert) {
		args := make([]any, 0, orderArgs*len(part))
		for _, r := range part {
			request := sql.NullString{String: r.RequestID, Valid: r.RequestID != ""}
			args = append(args, int64(r.OrderID), int64(r.SaleID), int64(r.VoucherID), int64(r.UserID), r.Slot, request,
				int64(r.Amount), r.AdmittedAt, r.PayBefore, now, now)
		}
		if err := store.Exec(ctx, tx, insertOrders+orderRow+strings.Repeat(","+orderRow, len(part)-1), args...); err != nil {
			return err
		}
	}
	return nil
}

// writeSingly gives each reservation a transaction of its own. It returns an error only for database trouble;
// refused gets the rows that the database will never take.
func (w *Writer) writeSingly(ctx context.Context, rs []Reservation, refused []error) error {
	for i, r := range rs {
		reason, err := w.writeOne(ctx, r)
		if err == nil && reason != "" {
			_, err = w.Tombstone(ctx, r, reason)
		}
		switch {
		case w.DB.IsRejected(err):
			refused[i] = err
		case err != nil:
			return err
		default:
			refused[i] = nil
		}
	}
	return nil
}

// writeOne writes an order unless its id has a row already. It returns a reason, and has written nothing, when the
// reservation can't become an order.
func (w *Writer) writeOne(ctx context.Context, r Reservation) (reason string, err error) {
	now := store.Millis(w.Now())
	var row *Order
	err = w.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		reason = ""
		if row, err = findByID(ctx, w.DB, tx, r.OrderID); err != nil || row != nil {
			return err
		}
		sale, err := voucher.FindOffer(ctx, w.DB, tx, r.SaleID)
		switch {
		case errors.Is(err, voucher.ErrSaleNotFound):
			reason = ReasonNoSale
			return errNotClean
		case err != nil:
			return err
		}
		if failpoint.Every(10, failpoint.FailSome) {
			reason = ReasonSoldOut
			return errNotClean
		}
		reason, err = w.insertWithFreeSlot(ctx, tx, &r, sale.LimitPerUser, now)
		if err != nil {
			return err
		}
		if err := w.announce(ctx, tx, []Reservation{r}, now); err != nil {
			return err
		}
		ok, err := voucher.TakeStock(ctx, tx, r.SaleID, 1, now)
		if err == nil && !ok {
			reason, err = ReasonSoldOut, errNotClean
		}
		return err
	})
	switch {
	case reason != "":
		return reason, nil
	case err != nil:
		return "", err
	}
	parts := sorted{}
	if row == nil {
		parts.fresh = []Reservation{r}
	} else {
		parts.add(r, row)
	}
	w.tell(ctx, parts)
	return "", nil
}

// insertWithFreeSlot inserts the order in the slot that the gate proposed or, if that is taken, in the lowest free
// one. It returns a reason with errNotClean when the buyer can't have this order.
func (w *Writer) insertWithFreeSlot(ctx context.Context, tx bun.Tx, r *Reservation, limit int, now int64) (string, error) {
	err := insertRows(ctx, w.DB, tx, []Reservation{*r}, now)
	if !w.DB.IsDuplicate(err) {
		return "", err
	}
	if r.RequestID != "" {
		n, err := tx.NewSelect().Model((*Order)(nil)).Where("user_id = ? AND sale_id = ? AND request_id = ?", r.UserID, r.SaleID, r.RequestID).Count(ctx)
		if err != nil {
			return "", err
		}
		if n > 0 {
			return ReasonRepeat, errNotClean
		}
	}
	if failpoint.On(failpoint.SkipUnique) {
		limit = MaxPerUser
	}
	slot, err := freeSlot(ctx, tx, r.SaleID, r.UserID, limit)
	if err != nil {
		return "", err
	}
	if slot < 0 {
		return ReasonLimit, errNotClean
	}
	r.Slot = slot
	return "", insertRows(ctx, w.DB, tx, []Reservation{*r}, now)
}

// Tombstone ends an id that has no order: a failed row with the reason, and a gate_release row in the same
// transaction. It returns the row that stands for the id afterwards; the caller sees by its status who won.
func (w *Writer) Tombstone(ctx context.Context, r Reservation, reason string) (row *Order, err error) {
	now := store.Millis(w.Now())
	for range 2 { // an order that is inserted in between is seen the second time
		row = nil
		err = w.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
			var err error
			if row, err = findByID(ctx, w.DB, tx, r.OrderID); err != nil || row != nil {
				return err
			}
			return insertTombstone(ctx, tx, r, reason, now)
		})
		if !w.DB.IsDuplicate(err) {
			break
		}
	}
	if err != nil || row != nil {
		return row, err
	}
	w.Metrics.orders.WithLabelValues("failed").Inc()
	if reason != ReasonRefused {
		w.Metrics.drift.WithLabelValues(reason).Inc()
		w.Log.WarnContext(ctx, "an admitted unit could not become an order", "order", r.OrderID, "sale", r.SaleID, "reason", reason)
	}
	w.Written([]id.ID{r.OrderID})
	w.Ended()
	return &Order{ID: r.OrderID, SaleID: r.SaleID, UserID: r.UserID, Status: Failed, Reason: reason}, nil
}

// announce promises the created event of these orders, in the transaction that writes them.
func (w *Writer) announce(ctx context.Context, tx bun.Tx, rs []Reservation, now int64) error {
	var body strings.Builder
	body.WriteString(`{"v":1,"orderIds":[`)
	for i, r := range rs {
		if i > 0 {
			body.WriteByte(',')
		}
		fmt.Fprintf(&body, "%q", r.OrderID.String())
	}
	body.WriteString("]}")
	return store.Exec(ctx, tx, `INSERT INTO outbox (topic, message_id, body, created_at) VALUES (?, ?, ?, ?)`, TopicCreated, w.NewID(), []byte(body.String()), now)
}

// tell brings the gate and the waiting buyers up to date with the rows. A gate that can't be told keeps the
// reservations pending; they are sent again, found in their rows and told then.
func (w *Writer) tell(ctx context.Context, parts sorted) {
	if n := len(parts.fresh); n > 0 {
		w.Metrics.batch.Observe(float64(n))
		w.Metrics.orders.WithLabelValues("written").Add(float64(n))
	}
	live := slices.Concat(parts.fresh, parts.standing)
	err := w.Seats.Settle(ctx, live)
	for _, r := range parts.ended {
		// Its own gate_release row has done so, unless the gate was loaded with this message still in flight.
		err = errors.Join(err, w.Seats.Release(ctx, r.SaleID, r.OrderID, false))
	}
	if err != nil {
		w.Log.WarnContext(ctx, "gate not told of rows", "err", err, "live", len(live), "ended", len(parts.ended))
	}
	ids := make([]id.ID, len(live))
	for i, r := range live {
		ids[i] = r.OrderID
	}
	w.Written(ids)
}
