package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"tandian/internal/kit/store"
	"tandian/internal/kit/store/storetest"
)

func TestTxRollsBackAndTellsDuplicates(t *testing.T) {
	storetest.Each(t, txRollsBackAndTellsDuplicates)
}

func txRollsBackAndTellsDuplicates(t *testing.T, db *store.DB) {
	insert := `INSERT INTO category (id, name, icon, sort) VALUES (1, 'a', 'b', 1)`
	boom := errors.New("boom")
	err := db.Tx(t.Context(), func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.ExecContext(ctx, insert); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Fatal(err)
	}
	if _, err := db.Write.ExecContext(t.Context(), insert); err != nil {
		t.Fatal("the rolled back row is still there", err)
	}
	if _, err := db.Write.ExecContext(t.Context(), insert); !db.IsDuplicate(err) || !db.IsRejected(err) {
		t.Fatal("a repeated key must be told as such", err)
	}
	if _, err := db.Write.ExecContext(t.Context(), `INSERT INTO category (id) VALUES (2)`); !db.IsRejected(err) || db.IsDuplicate(err) {
		t.Fatal("another violation is no duplicate", err)
	}
	if _, err := db.Write.ExecContext(t.Context(), `nonsense`); err == nil || db.IsRejected(err) {
		t.Fatal("a faulty statement says nothing about the row", err)
	}
}

// What a row or a statement is refused for stays so; what the server can't do now may pass.
func TestIsAway(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		insert := `INSERT INTO category (id, name, icon, sort) VALUES (1, 'a', 'b', 1)`
		for _, statement := range []string{insert, insert, `nonsense`} {
			if _, err := db.Write.ExecContext(t.Context(), statement); db.IsAway(err) {
				t.Errorf("%q: %v", statement, err)
			}
		}
		if !db.IsAway(fmt.Errorf("pay: %w", store.ErrCommitUnknown)) || db.IsAway(errors.New("x")) || db.IsAway(nil) {
			t.Error("a commit of which nobody knows may have been one")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
		defer cancel()
		if _, err := db.Write.ExecContext(ctx, insert); !db.IsAway(err) {
			t.Errorf("no time: %v", err)
		}
	})
	full := storetest.SQLite(t)
	if _, err := full.Write.ExecContext(t.Context(), `PRAGMA max_page_count = 1`); err != nil {
		t.Fatal(err)
	}
	_, err := full.Write.ExecContext(t.Context(), `INSERT INTO category (name, icon, sort) VALUES (?, '', 1)`, strings.Repeat("x", 1<<20))
	if !full.IsAway(err) || full.IsRejected(err) {
		t.Errorf("no room: %v", err)
	}
}

func TestLeaseIDs(t *testing.T) { storetest.Each(t, leaseIDs) }

func leaseIDs(t *testing.T, db *store.DB) {
	lease := db.LeaseIDs("order")
	a, err := lease(t.Context(), 100, 50)
	if err != nil {
		t.Fatal(err)
	}
	b, err := lease(t.Context(), 100, 20) // the clock jumped back
	if err != nil || b.From != a.From+100 || b.Floor != 50 {
		t.Fatalf("%+v then %+v: %v", a, b, err)
	}
	if _, err := db.LeaseIDs("no such")(t.Context(), 1, 1); err == nil {
		t.Fatal("an unknown sequence must be refused")
	}
}

// Several instances lease at once: no number is given out twice.
func TestLeasesDoNotOverlap(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		var mu sync.Mutex
		from := map[int64]bool{}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				lease := db.LeaseIDs("order")
				for range 5 {
					b, err := lease(t.Context(), 10, 1)
					mu.Lock()
					if err != nil || from[b.From] {
						t.Error(b, err)
					}
					from[b.From] = true
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if len(from) != 40 {
			t.Fatalf("%d blocks", len(from))
		}
	})
}

// What a row holds comes back byte by byte, whatever the server's character set (D15), and what doesn't fit is refused.
func TestText(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		const text = "😇👨‍👩‍👧‍👦𠮷 探店"
		if err := store.Exec(t.Context(), db.Write, `INSERT INTO category (name, icon, sort) VALUES (?, ?, ?)`, text, "a\\b'c\"d", 1); err != nil {
			t.Fatal(err)
		}
		var row struct{ Name, Icon string }
		if err := db.Get(t.Context(), db.Read, &row, `SELECT name, icon FROM category WHERE name = ?`, text); err != nil || row.Name != text || row.Icon != "a\\b'c\"d" {
			t.Fatalf("%q %q %v", row.Name, row.Icon, err)
		}
		if err := store.Exec(t.Context(), db.Write, `INSERT INTO sale (voucher_id, stock, stock_released, begins_at, ends_at, created_at, updated_at) VALUES (1, -1, 1, 1, 2, 1, 1)`); !db.IsRejected(err) {
			t.Fatal("a CHECK must refuse", err)
		}
	})
}
