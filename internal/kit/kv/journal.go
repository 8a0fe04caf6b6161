package kv

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"tandian/internal/kit/store"
)

// Journal keeps a copy of a Memory in the table kv_entry, written behind: what changed since the last Flush is lost
// when the process is killed. For sessions and codes that is a fair price; nothing of the money path is kept here.
type Journal struct {
	Memory *Memory
	DB     *store.DB
}

// Load reads the table into the memory and starts to note changes. Call it once, before the memory is used.
func (j *Journal) Load(ctx context.Context) error {
	j.Memory.mu.Lock()
	defer j.Memory.mu.Unlock()
	now := store.Millis(j.Memory.now())
	rows, err := j.DB.Read.QueryContext(ctx, `SELECT k, v, expires_at FROM kv_entry WHERE expires_at > ?`, now)
	if err != nil {
		return fmt.Errorf("load kv: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var key string
		var value []byte
		var expires int64
		if err := rows.Scan(&key, &value, &expires); err != nil {
			return fmt.Errorf("load kv: %w", err)
		}
		e, err := decode(value, store.Time(expires))
		if err != nil {
			return fmt.Errorf("load kv: %q: %w", key, err)
		}
		j.Memory.entries[key] = e
	}
	j.Memory.changed = map[string]struct{}{}
	return rows.Err()
}

// Flush writes what has changed since the last one, and drops expired rows. After an error the changes are kept for
// the next call.
func (j *Journal) Flush(ctx context.Context) error {
	upserts, deletes, err := j.take()
	if err != nil || len(upserts)+len(deletes) == 0 {
		return err
	}
	err = j.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if len(upserts) > 0 {
			if _, err := tx.NewInsert().Model(&upserts).On("CONFLICT (k) DO UPDATE").Set("v = EXCLUDED.v, expires_at = EXCLUDED.expires_at").Exec(ctx); err != nil {
				return err
			}
		}
		if len(deletes) > 0 {
			if _, err := tx.NewDelete().Model((*row)(nil)).Where("k IN (?)", bun.List(deletes)).Exec(ctx); err != nil {
				return err
			}
		}
		_, err := tx.NewDelete().Model((*row)(nil)).Where("expires_at <= ?", store.Millis(j.Memory.now())).Exec(ctx)
		return err
	})
	if err != nil {
		j.giveBack(upserts, deletes)
		return fmt.Errorf("flush kv: %w", err)
	}
	return nil
}

type row struct {
	bun.BaseModel `bun:"table:kv_entry"`
	K             string `bun:",pk"`
	V             []byte
	ExpiresAt     int64
}

func (j *Journal) take() (upserts []row, deletes []string, err error) {
	m := j.Memory
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.changed {
		e := m.live(key)
		if e == nil {
			deletes = append(deletes, key)
			continue
		}
		b, err := e.encode()
		if err != nil {
			return nil, nil, fmt.Errorf("flush kv: %w", err)
		}
		upserts = append(upserts, row{K: key, V: b, ExpiresAt: store.Millis(e.expires)})
	}
	clear(m.changed)
	return upserts, deletes, nil
}

func (j *Journal) giveBack(upserts []row, deletes []string) {
	j.Memory.mu.Lock()
	defer j.Memory.mu.Unlock()
	for _, r := range upserts {
		j.Memory.mark(r.K)
	}
	for _, key := range deletes {
		j.Memory.mark(key)
	}
}
