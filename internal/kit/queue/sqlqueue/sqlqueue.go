// Package sqlqueue is the broker of the embedded mode: a table. A message is accepted when its row is committed, and
// with SQLite's synchronous=FULL that means on disk. One process owns the file, so what is with a consumer is
// remembered in memory: after a crash every row that is still there is delivered again.
package sqlqueue

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/uptrace/bun"

	"tandian/internal/kit/queue"
	"tandian/internal/kit/store"
	"tandian/internal/kit/supervise"
)

// pollEvery finds delayed messages whose time has come; new ones wake the consumer at once.
const pollEvery = 250 * time.Millisecond

// Broker implements queue.Broker over the table queue_message.
type Broker struct {
	db  *store.DB
	now func() time.Time

	mu     sync.Mutex
	topics map[string]*topic // guarded by mu
}

// topic is what this process knows of a queue beyond its rows.
type topic struct {
	wake chan struct{} // capacity 1

	mu       sync.Mutex
	inFlight map[int64]struct{} // rows with a consumer; guarded by mu
}

var _ queue.Broker = (*Broker)(nil)

// New returns a broker over the migrated database.
func New(db *store.DB, now func() time.Time) *Broker {
	return &Broker{db: db, now: now, topics: map[string]*topic{}}
}

func (b *Broker) topic(name string) *topic {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.topics[name]
	if t == nil {
		t = &topic{wake: make(chan struct{}, 1), inFlight: map[int64]struct{}{}}
		b.topics[name] = t
	}
	return t
}

// Publish implements queue.Broker.
func (b *Broker) Publish(ctx context.Context, topic, messageID string, body []byte) error {
	return b.PublishAfter(ctx, topic, messageID, body, 0)
}

// PublishAfter implements queue.Broker.
func (b *Broker) PublishAfter(ctx context.Context, topic, messageID string, body []byte, delay time.Duration) error {
	now := store.Millis(b.now())
	err := store.Exec(ctx, b.db.Write, `INSERT INTO queue_message (topic, message_id, body, visible_at, created_at) VALUES (?, ?, ?, ?, ?)`,
		topic, messageID, body, now+max(0, delay.Milliseconds()), now)
	if err != nil {
		return fmt.Errorf("publish to %s: %w", topic, err)
	}
	wake(b.topic(topic).wake)
	return nil
}

// Up implements queue.Broker: the database is asked by each message itself.
func (b *Broker) Up() bool { return true }

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Consume implements queue.Broker.
func (b *Broker) Consume(ctx context.Context, name string, batch queue.Batch, handle func(context.Context, []queue.Message) []queue.Verdict) error {
	t := b.topic(name)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		rows, err := b.take(ctx, name, t, batch.Max)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			select {
			case <-ctx.Done():
			case <-t.wake:
			case <-tick.C:
			}
			continue
		}
		if len(rows) < batch.Max && batch.Linger > 0 && supervise.Sleep(ctx, batch.Linger) {
			more, err := b.take(ctx, name, t, batch.Max-len(rows))
			if err != nil {
				t.letGo(rows)
				return err
			}
			rows = append(rows, more...)
		}
		if err := b.deliver(ctx, name, t, rows, handle); err != nil {
			return err
		}
	}
	return nil
}

type row struct {
	bun.BaseModel `bun:"table:queue_message"`
	ID            int64 `bun:",pk"`
	MessageID     string
	Body          []byte
	Attempts      int
	CreatedAt     int64
}

// take reads the rows that are due for longest and with nobody, and marks them as in flight.
func (b *Broker) take(ctx context.Context, name string, t *topic, most int) ([]row, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var rows []row
	// Rows in flight are few and due for long: reading past them costs at most one batch per consumer.
	err := b.db.Select(ctx, b.db.Read, &rows, `SELECT id, message_id, body, attempts, created_at FROM queue_message WHERE topic = ? AND visible_at <= ? ORDER BY visible_at, id LIMIT ?`,
		name, store.Millis(b.now()), most+len(t.inFlight))
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil
		}
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	rows = slices.DeleteFunc(rows, func(r row) bool { _, taken := t.inFlight[r.ID]; return taken })
	rows = rows[:min(len(rows), most)]
	for _, r := range rows {
		t.inFlight[r.ID] = struct{}{}
	}
	return rows, nil
}

func (t *topic) letGo(rows []row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range rows {
		delete(t.inFlight, r.ID)
	}
}

// deliver runs the handler and carries out its verdicts in one transaction.
func (b *Broker) deliver(ctx context.Context, name string, t *topic, rows []row, handle func(context.Context, []queue.Message) []queue.Verdict) error {
	defer t.letGo(rows)
	messages := make([]queue.Message, len(rows))
	for i, r := range rows {
		messages[i] = queue.Message{ID: r.MessageID, Body: r.Body, Attempts: r.Attempts, At: store.Time(r.CreatedAt)}
	}
	verdicts := handle(ctx, messages)
	// The verdicts must be kept even though the consumer is being stopped.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return b.settle(ctx, name, rows, verdicts)
}

func (b *Broker) settle(ctx context.Context, name string, rows []row, verdicts []queue.Verdict) error {
	now := store.Millis(b.now())
	return b.db.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		var failed error
		exec := func(query string, args ...any) {
			if failed == nil {
				_, failed = tx.ExecContext(ctx, query, args...)
			}
		}
		var done []int64
		queue.Sort(len(rows), verdicts, queue.Cases{
			Ack: func(i int) { done = append(done, rows[i].ID) },
			Retry: func(i int, after time.Duration) {
				exec(`UPDATE queue_message SET attempts = attempts + 1, visible_at = ? WHERE id = ?`, now+after.Milliseconds(), rows[i].ID)
			},
			Dead: func(i int, reason error) {
				exec(`INSERT INTO dead_letter (topic, message_id, body, reason, attempts, created_at) VALUES (?, ?, ?, ?, ?, ?)`,
					name, rows[i].MessageID, rows[i].Body, clip(reason), rows[i].Attempts, now)
				done = append(done, rows[i].ID)
			},
		})
		if len(done) > 0 {
			exec(`DELETE FROM queue_message WHERE id IN (?)`, bun.List(done))
		}
		return failed
	})
}

// clip keeps a reason within the column.
func clip(err error) string {
	if err == nil {
		return ""
	}
	s := []rune(err.Error())
	return string(s[:min(len(s), 255)])
}

// Depth implements queue.Broker.
func (b *Broker) Depth(ctx context.Context, name string) (queue.Depth, error) {
	var count int64
	var oldest *int64
	if err := b.db.Read.NewRaw(`SELECT COUNT(*), MIN(created_at) FROM queue_message WHERE topic = ?`, name).Scan(ctx, &count, &oldest); err != nil {
		return queue.Depth{}, fmt.Errorf("depth of %s: %w", name, err)
	}
	t := b.topic(name)
	t.mu.Lock()
	unacked := int64(len(t.inFlight))
	t.mu.Unlock()
	d := queue.Depth{Ready: max(0, count-unacked), Unacked: min(unacked, count)}
	if oldest != nil {
		d.Oldest = max(0, b.now().Sub(store.Time(*oldest)))
	}
	return d, nil
}

// Backlog returns the bodies of all messages of the topic, oldest first, as seen by the transaction q: what was
// accepted and not yet consumed. A broker that lives elsewhere can't offer this.
func Backlog(ctx context.Context, q store.Querier, name string) ([][]byte, error) {
	var bodies [][]byte
	err := q.NewSelect().Table("queue_message").Column("body").Where("topic = ?", name).Order("id").Scan(ctx, &bodies)
	return bodies, err
}
