// Package audit exists so that every change by an owner or an operator leaves a line, in the transaction of the
// change itself: who, when, what, why.
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"tandian/internal/kit/id"
	"tandian/internal/kit/store"
)

// Entry is one line. Detail is kept as JSON.
type Entry struct {
	At      time.Time
	Actor   id.ID  // 0 = the program itself
	Action  string // "sale.stock"
	Subject string // "sale:42"
	Detail  any
}

// Write appends the line; q is the transaction of the change.
func Write(ctx context.Context, q store.Querier, e Entry) error {
	detail, err := json.Marshal(e.Detail)
	if err != nil {
		return fmt.Errorf("audit %s: %w", e.Action, err)
	}
	_, err = q.ExecContext(ctx, `INSERT INTO audit_log (at, actor_id, action, subject, detail) VALUES (?, ?, ?, ?, ?)`,
		store.Millis(e.At), e.Actor, e.Action, e.Subject, string(detail))
	return err
}
