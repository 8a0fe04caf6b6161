package order

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/uptrace/bun"

	"tandian/internal/kit/id"
	"tandian/internal/kit/store"
)

// LetterFilter narrows a list of letters; zero fields don't.
type LetterFilter struct {
	Topic   string
	State   LetterState
	Text    string // in the reason, the note or the message id, whatever the case
	OrderID id.ID
}

// likeEscape makes text match itself in LIKE … ESCAPE '!'.
var likeEscape = strings.NewReplacer("!", "!!", "%", "!%", "_", "!_")

// narrow adds the filter to a query; about are the letters of its order.
func (f LetterFilter) narrow(q *bun.SelectQuery, about []id.ID) *bun.SelectQuery {
	if f.Topic != "" {
		q = q.Where("topic = ?", f.Topic)
	}
	if f.State != 0 {
		q = q.Where("state = ?", f.State)
	}
	if f.OrderID != 0 {
		q = q.Where("id IN (?)", bun.List(about))
	}
	if f.Text != "" {
		like := "%" + likeEscape.Replace(strings.ToLower(f.Text)) + "%"
		q = q.Where("(LOWER(reason) LIKE ? ESCAPE '!' OR LOWER(note) LIKE ? ESCAPE '!' OR LOWER(message_id) LIKE ? ESCAPE '!')", like, like, like)
	}
	return q
}

// lettersAbout returns the letters about an order; of none if orderID is 0. It is a step of its own: as a part of the
// query that sorts letters with their bodies it crashes MariaDB 10.11.
func lettersAbout(ctx context.Context, q store.Querier, orderID id.ID) ([]id.ID, error) {
	if orderID == 0 {
		return nil, nil
	}
	ids := []id.ID{}
	err := q.NewSelect().Table("dead_letter_order").Column("letter_id").Where("order_id = ?", orderID).Scan(ctx, &ids)
	if len(ids) == 0 {
		ids = append(ids, 0) // no letter has it
	}
	return ids, err
}

// Find returns ErrNoLetter if there is none of that id. Like List it takes in first what has only just been written.
func (d *DeadLetters) Find(ctx context.Context, letterID id.ID) (*Letter, error) {
	d.tryTakeIn(ctx)
	l := &Letter{}
	err := d.DB.Get(ctx, d.DB.Read, l, `SELECT * FROM dead_letter WHERE id = ?`, int64(letterID))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNoLetter
	}
	return l, err
}

// tryTakeIn is takeIn for those who can show the letters without it.
func (d *DeadLetters) tryTakeIn(ctx context.Context) {
	if err := d.takeIn(ctx); err != nil {
		d.Log.WarnContext(ctx, "new dead letters not taken in", "err", err)
	}
}

// pending is Find for a letter that is to be acted on.
func (d *DeadLetters) pending(ctx context.Context, letterID id.ID) (*Letter, error) {
	l, err := d.Find(ctx, letterID)
	if err == nil && l.State != LetterPending {
		err = ErrLetterEnded
	}
	return l, err
}

// List returns up to limit letters, the newest first, below the id before (0 = from the newest on).
func (d *DeadLetters) List(ctx context.Context, f LetterFilter, before id.ID, limit int) ([]Letter, error) {
	d.tryTakeIn(ctx)
	about, err := lettersAbout(ctx, d.DB.Read, f.OrderID)
	if err != nil {
		return nil, err
	}
	var letters []Letter
	q := f.narrow(d.DB.Read.NewSelect().Model(&letters), about).Order("id DESC").Limit(int64(limit))
	if before > 0 {
		q = q.Where("id < ?", before)
	}
	if d.Leave > 0 {
		q = q.Where("last_at > 0")
	}
	return letters, q.Scan(ctx)
}

// Orders returns which orders each of the letters is about; of letters that are not ours nobody knows.
func (d *DeadLetters) Orders(ctx context.Context, letters []Letter) (map[id.ID][]id.ID, error) {
	found := map[id.ID][]id.ID{}
	if len(letters) == 0 {
		return found, nil
	}
	ids := make([]id.ID, len(letters))
	for i, l := range letters {
		ids[i] = l.ID
	}
	var rows []letterOrder
	err := d.DB.Read.NewSelect().Model(&rows).Where("letter_id IN (?)", bun.List(ids)).Order("letter_id", "order_id").Scan(ctx)
	for _, r := range rows {
		found[r.LetterID] = append(found[r.LetterID], r.OrderID)
	}
	return found, err
}

// letterOrder is a row of dead_letter_order.
type letterOrder struct {
	bun.BaseModel `bun:"table:dead_letter_order"`

	LetterID  id.ID
	OrderID   id.ID
	PayBefore int64
}

// oldest returns the first letters that the filter finds, without their bodies, and how many it finds in all.
func (d *DeadLetters) oldest(ctx context.Context, f LetterFilter, limit int) (letters []Letter, all int, err error) {
	about, err := lettersAbout(ctx, d.DB.Read, f.OrderID)
	if err != nil {
		return nil, 0, err
	}
	n, err := f.narrow(d.DB.Read.NewSelect().Model((*Letter)(nil)), about).Count(ctx)
	if err != nil {
		return nil, 0, err
	}
	err = f.narrow(d.DB.Read.NewSelect().Model(&letters).Column("id", "ours"), about).Order("id").Limit(int64(limit)).Scan(ctx)
	return letters, int(n), err
}

// findAll returns the letters of the ids.
func (d *DeadLetters) findAll(ctx context.Context, ids []id.ID) ([]Letter, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var letters []Letter
	err := d.DB.Read.NewSelect().Model(&letters).Where("id IN (?)", bun.List(ids)).Scan(ctx)
	return letters, err
}

// LetterCount is how many letters of a topic stand where.
type LetterCount struct {
	Topic string
	State LetterState
	N     int64
}

// Counts counts all letters.
func (d *DeadLetters) Counts(ctx context.Context) ([]LetterCount, error) {
	var counts []LetterCount
	err := d.DB.Read.NewSelect().Model((*Letter)(nil)).Column("topic", "state").ColumnExpr("COUNT(*) AS n").Group("topic", "state").Scan(ctx, &counts)
	return counts, err
}
