package order

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"tandian/internal/kit/id"
	"tandian/internal/kit/queue"
)

// Notifier tells the outside that orders have been written. Its sender is the log.
type Notifier struct {
	Log *slog.Logger
}

// Handle is the consumer of TopicCreated.
func (n *Notifier) Handle(ctx context.Context, batch []queue.Message) []queue.Verdict {
	verdicts := make([]queue.Verdict, len(batch))
	for i, m := range batch {
		var event struct {
			Version  int     `json:"v"`
			OrderIDs []id.ID `json:"orderIds"`
		}
		err := json.Unmarshal(m.Body, &event)
		if err == nil && event.Version != messageVersion {
			err = fmt.Errorf("version %d, want %d", event.Version, messageVersion)
		}
		if err != nil {
			verdicts[i] = queue.Dead(fmt.Errorf("created event: %w", err))
			continue
		}
		n.Log.DebugContext(ctx, "orders created", "orders", event.OrderIDs)
		verdicts[i] = queue.Ack()
	}
	return verdicts
}
