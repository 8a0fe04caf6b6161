package order

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"tandian/internal/kit/audit"
	"tandian/internal/kit/errs"
	"tandian/internal/kit/id"
	"tandian/internal/kit/queue"
	"tandian/internal/kit/store"
)

// LetterState is where a dead letter stands.
type LetterState int

const (
	LetterPending LetterState = 1 // waits for its automatic retry, for the outcome of a replay, or for a person
	LetterFixed   LetterState = 2 // its consumer has succeeded
	LetterIgnored LetterState = 3 // given up, by a person or because it has come too late
)

var letterStates = map[LetterState]string{LetterPending: "pending", LetterFixed: "fixed", LetterIgnored: "ignored"}

func (s LetterState) String() string { return letterStates[s] }

// ParseLetterState is the inverse of String.
func ParseLetterState(name string) (LetterState, bool) {
	for s, n := range letterStates {
		if n == name {
			return s, true
		}
	}
	return 0, false
}

// Letter is a row of dead_letter: a message that its consumer will not get again by itself. Times are Unix
// milliseconds, 0 = never.
type Letter struct {
	bun.BaseModel `bun:"table:dead_letter,alias:l"`

	ID        id.ID `bun:",pk,autoincrement"`
	Topic     string
	MessageID string
	Body      []byte
	Reason    string // of its last death
	Attempts  int64  // of consumers, all lives together
	CreatedAt int64  // when it died first
	LastAt    int64  // when it died last; 0 = not taken in yet
	State     LetterState
	Ours      bool // not forged, and this version can read it
	Sent      int64
	SentAt    int64
	Note      string
	ActorID   id.ID // who acted on it last; 0 = the program itself
	EndedAt   int64
}

var (
	// ErrNoLetter answers an id that no dead letter has.
	ErrNoLetter = errs.Define("dead_letter.not_found", errs.NotFound, "没有这封死信。", "No such dead letter.")
	// ErrLetterEnded answers an act on a letter that is fixed or ignored already.
	ErrLetterEnded = errs.Define("dead_letter.ended", errs.Conflict, "这封死信已经处理过了。", "This dead letter has been dealt with already.")
	// ErrLetterForeign answers a replay of what is not provably a message of ours: sending it again would sign it.
	ErrLetterForeign = errs.Define("dead_letter.not_ours", errs.Conflict, "这封死信不是本系统的消息（伪造或无法解读），不能重放，只能忽略。",
		"This dead letter is not a message of ours (forged, or not readable); it can be ignored, not replayed.")
)

// DeadLetters looks after the dead letters of every topic (S9). Several may run: each step is a conditional update.
type DeadLetters struct {
	DB      *store.DB
	Broker  queue.Broker
	Tomb    Tombstones
	Now     func() time.Time
	Log     *slog.Logger
	Metrics *LetterMetrics
	Pause   time.Duration // from a letter's death to its automatic retry
	Leave   time.Duration // for how long a new letter is left to others, unseen; 0 = not at all
}

// Tombstones is the half of Writer that ends an id without an order.
type Tombstones interface {
	Tombstone(ctx context.Context, r Reservation, reason string) (*Order, error)
}

// KeepDeadLetter writes a message that won't be delivered again, and why. It may be called twice for one message: the
// second row is taken in as another death of the first.
func KeepDeadLetter(ctx context.Context, db *store.DB, topic string, m queue.Message, reason error, at time.Time) error {
	return store.Exec(ctx, db.Write, `INSERT INTO dead_letter (topic, message_id, body, reason, attempts, created_at) VALUES (?, ?, ?, ?, ?, ?)`,
		clipTo(topic, 64), clipTo(m.ID, 64), m.Body, clipTo(reason.Error(), 255), m.Attempts, store.Millis(at))
}

// clipTo keeps text within a column of n characters.
func clipTo(s string, n int) string {
	r := []rune(s)
	return string(r[:min(len(r), n)])
}

// forged reports whether a letter's reason says that nobody knows who wrote it. The reason is what a broker's seal
// answers, and all that a row of an older version tells; no consumer's own reason begins so.
func forged(reason string) bool {
	return strings.HasPrefix(reason, "forged") || strings.HasPrefix(reason, "schema version ")
}

// DeadLettered returns which of the reservations are in a pending dead letter of ours: those wait for a person.
func DeadLettered(ctx context.Context, q store.Querier, rs []Reservation) (map[id.ID]bool, error) {
	dead := map[id.ID]bool{}
	byMessage := make(map[string]id.ID, len(rs))
	names, ids := make([]string, len(rs)), make([]id.ID, len(rs))
	for i, r := range rs {
		names[i], ids[i] = ownMessageID(r.OrderID), r.OrderID
		byMessage[names[i]] = r.OrderID
	}
	var fresh []Letter // not taken in yet
	err := q.NewSelect().Model(&fresh).Column("message_id", "reason").
		Where("topic = ? AND message_id IN (?) AND state = ? AND last_at = 0", TopicCreate, bun.List(names), LetterPending).Scan(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range fresh {
		if !forged(l.Reason) {
			dead[byMessage[l.MessageID]] = true
		}
	}
	var known []id.ID
	err = q.NewSelect().Table("dead_letter_order").Join("JOIN dead_letter AS l ON l.id = dead_letter_order.letter_id").Column("order_id").
		Where("order_id IN (?) AND l.topic = ? AND l.state = ?", bun.List(ids), TopicCreate, LetterPending).Scan(ctx, &known)
	for _, orderID := range known {
		dead[orderID] = true
	}
	return dead, err
}

// DeadReservations returns the reservations of all pending dead letters. A gate that is loaded must know them: they
// keep their units and stay queued for their buyers. Some may have a row already.
func DeadReservations(ctx context.Context, q store.Querier) ([]Reservation, error) {
	var letters []Letter
	err := q.NewSelect().Model(&letters).Column("reason", "body").Where("topic = ? AND state = ?", TopicCreate, LetterPending).Order("id").Scan(ctx)
	if err != nil {
		return nil, err
	}
	var all []Reservation
	for _, l := range letters {
		if forged(l.Reason) {
			continue
		}
		rs, err := Decode(l.Body)
		if err != nil {
			continue // poison: nobody knows what it reserved
		}
		all = append(all, rs...)
	}
	return all, nil
}

// Replay sends a pending letter's message again on behalf of actor. What it becomes is seen later: fixed when its
// consumer has succeeded, pending with another death otherwise. Replaying twice is harmless. It returns ErrNoLetter,
// ErrLetterEnded or ErrLetterForeign.
func (d *DeadLetters) Replay(ctx context.Context, letterID, actor id.ID) (*Letter, error) {
	l, err := d.pending(ctx, letterID)
	if err != nil {
		return nil, err
	}
	if !l.Ours {
		return nil, ErrLetterForeign
	}
	if err := d.send(ctx, l); err != nil {
		return nil, err
	}
	at := store.Millis(d.Now())
	err = d.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := store.Exec(ctx, tx, `UPDATE dead_letter SET sent = sent + 1, sent_at = ?, actor_id = ? WHERE id = ?`, at, int64(actor), int64(l.ID)); err != nil {
			return err
		}
		return audit.Write(ctx, tx, d.entry("dead_letter.replay", l, actor, ""))
	})
	if err != nil {
		return nil, err
	}
	return d.Find(ctx, letterID)
}

// send hands the letter's message over again. Reservations travel alone and only if they have no row.
func (d *DeadLetters) send(ctx context.Context, l *Letter) error {
	if l.Topic != TopicCreate {
		return d.Broker.Publish(ctx, l.Topic, l.MessageID, l.Body)
	}
	rs, err := Decode(l.Body)
	if err != nil {
		return ErrLetterForeign.With(err)
	}
	if rs, err = WithoutRow(ctx, d.DB.Read, rs); err != nil {
		return err
	}
	for _, r := range rs {
		if err := PublishOne(ctx, d.Broker, r); err != nil {
			return err
		}
	}
	return nil
}

// Ignore gives a pending letter up. A reservation without a row gets its tombstone, and with that its unit goes back; if
// it turns out to have an order the letter is fixed instead. It returns ErrNoLetter or ErrLetterEnded.
func (d *DeadLetters) Ignore(ctx context.Context, letterID, actor id.ID, note string) (*Letter, error) {
	l, err := d.pending(ctx, letterID)
	if err != nil {
		return nil, err
	}
	if err := d.giveUp(ctx, l, actor, note); err != nil {
		return nil, err
	}
	return d.Find(ctx, letterID)
}

// giveUp is Ignore without looking at the letter before and after.
func (d *DeadLetters) giveUp(ctx context.Context, l *Letter, actor id.ID, note string) error {
	state, err := d.bury(ctx, l)
	if err != nil {
		return err
	}
	at := store.Millis(d.Now())
	return d.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		n, err := store.Affected(ctx, tx, `UPDATE dead_letter SET state = ?, note = ?, actor_id = ?, ended_at = ? WHERE id = ? AND state = ?`,
			int(state), clipTo(note, 255), int64(actor), at, int64(l.ID), int(LetterPending))
		if err != nil || n == 0 { // somebody else was faster, to the same end
			return err
		}
		return audit.Write(ctx, tx, d.entry("dead_letter.ignore", l, actor, note))
	})
}

// bury writes the tombstones of a letter's reservations and returns what the letter is then. Forged ones reserve nothing.
func (d *DeadLetters) bury(ctx context.Context, l *Letter) (LetterState, error) {
	if l.Topic != TopicCreate || !l.Ours {
		return LetterIgnored, nil
	}
	rs, err := Decode(l.Body)
	if err != nil {
		return LetterIgnored, nil
	}
	state := LetterFixed
	for _, r := range rs {
		row, err := d.Tomb.Tombstone(ctx, r, ReasonDropped)
		if err != nil {
			return 0, fmt.Errorf("tombstone of order %d: %w", r.OrderID, err)
		}
		if row.Status == Failed && row.Reason == ReasonDropped {
			state = LetterIgnored
		}
	}
	return state, nil
}

func (d *DeadLetters) entry(action string, l *Letter, actor id.ID, note string) audit.Entry {
	return audit.Entry{At: d.Now(), Actor: actor, Action: action, Subject: "dead_letter:" + l.ID.String(),
		Detail: map[string]any{"topic": l.Topic, "message": l.MessageID, "note": note}}
}

// Batch is what a filtered replay did, or would do.
type Batch struct {
	Matched  int // pending letters that the filter finds
	Replayed int
	Foreign  int // of those looked at: not ours, left alone
	Failed   int // could not be sent now; they stay pending
}

// mostReplayed bounds one filtered replay: what is left matches the same filter again.
const mostReplayed = 1000

// ReplayAll replays the pending letters that the filter finds, oldest first, at most 1,000 of them. A dry run sends
// nothing: its Replayed is how many would be sent.
func (d *DeadLetters) ReplayAll(ctx context.Context, f LetterFilter, actor id.ID, dry bool) (b Batch, err error) {
	f.State = LetterPending
	if err := d.takeIn(ctx); err != nil {
		return b, err
	}
	letters, matched, err := d.oldest(ctx, f, mostReplayed)
	if err != nil {
		return b, err
	}
	b.Matched = matched
	for _, l := range letters {
		if !l.Ours {
			b.Foreign++
			continue
		}
		if dry {
			b.Replayed++
			continue
		}
		switch _, err := d.Replay(ctx, l.ID, actor); {
		case err == nil:
			b.Replayed++
		case ctx.Err() != nil:
			return b, ctx.Err()
		case errors.Is(err, ErrLetterEnded): // meanwhile
		default:
			b.Failed++
			d.Log.WarnContext(ctx, "dead letter not sent again", "letter", l.ID, "err", err)
		}
	}
	return b, nil
}
