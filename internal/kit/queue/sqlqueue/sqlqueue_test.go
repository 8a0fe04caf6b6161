package sqlqueue_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"tandian/internal/kit/queue"
	"tandian/internal/kit/queue/queuetest"
	"tandian/internal/kit/queue/sqlqueue"
	"tandian/internal/kit/store"
	"tandian/internal/schema"
)

func TestContract(t *testing.T) {
	queuetest.Run(t, func(t *testing.T) queuetest.Harness {
		db, err := store.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "t.db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		if _, err := schema.Up(t.Context(), schema.SQLite, db.Write.DB); err != nil {
			t.Fatal(err)
		}
		return queuetest.Harness{
			Broker: sqlqueue.New(db, time.Now),
			Reopen: func() queue.Broker { return sqlqueue.New(db, time.Now) },
			DeadLetters: func(ctx context.Context, topic string) (reasons []string, err error) {
				err = db.Read.NewSelect().Table("dead_letter").Column("reason").Where("topic = ?", topic).Scan(ctx, &reasons)
				return reasons, err
			},
		}
	})
}
