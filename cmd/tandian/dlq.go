package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"tandian/internal/app"
)

type dlqCommand struct {
	List   dlqList   `cmd:"" help:"List dead letters, the newest first."`
	Show   dlqShow   `cmd:"" help:"Show one dead letter with its message."`
	Replay dlqReplay `cmd:"" help:"Send dead letters' messages again; safe to repeat."`
	Ignore dlqIgnore `cmd:"" help:"Give a dead letter up; a reservation's unit goes back and its order fails."`
}

// letterFilter are the flags that narrow list and replay.
type letterFilter struct {
	Topic string `placeholder:"TOPIC" help:"Only this topic, such as voucher.order.create."`
	Query string `name:"q" placeholder:"TEXT" help:"Only those with this in the reason, the note or the message id."`
	Order string `placeholder:"ID" help:"Only those about this order."`
}

// letter is a dead letter as the console's API has it.
type letter struct {
	ID         string    `json:"id"`
	Topic      string    `json:"topic"`
	State      string    `json:"state"`
	Reason     string    `json:"reason"`
	Attempts   int64     `json:"attempts"`
	Replayable bool      `json:"replayable"`
	OrderIDs   []string  `json:"orderIds"`
	LastAt     time.Time `json:"lastAt"`
	Sent       int64     `json:"sent"`
}

type dlqList struct {
	settings
	letterFilter
	State string `default:"pending" enum:"pending,fixed,ignored,all" help:"pending, fixed, ignored or all."`
	Limit int    `default:"100" help:"Letters at most."`
	JSON  bool   `name:"json" help:"Print JSON."`
}

// Run follows the pages until there are no more, or enough.
func (c *dlqList) Run(ctx context.Context, p *program) error {
	query := url.Values{}
	for key, value := range map[string]string{"topic": c.Topic, "q": c.Query, "orderId": c.Order, "state": strings.TrimPrefix(c.State, "all")} {
		if value != "" {
			query.Set(key, value)
		}
	}
	items := []json.RawMessage{}
	err := withOperator(ctx, p, &c.settings, func(o *app.Operator) error {
		for len(items) < c.Limit {
			query.Set("limit", strconv.Itoa(min(50, c.Limit-len(items))))
			var page struct {
				Items      []json.RawMessage `json:"items"`
				NextCursor string            `json:"nextCursor"`
			}
			if err := o.Do(ctx, "GET", "/dead-letters?"+query.Encode(), nil, &page); err != nil {
				return err
			}
			items = append(items, page.Items...)
			if page.NextCursor == "" {
				return nil
			}
			query.Set("cursor", page.NextCursor)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(p.stdout, map[string]any{"items": items})
	}
	rows := make([][]string, len(items))
	for i, item := range items {
		var l letter
		if err := json.Unmarshal(item, &l); err != nil {
			return err
		}
		rows[i] = []string{l.ID, l.State, l.Topic, shortTime(l.LastAt), decimal(l.Attempts), decimal(l.Sent), strings.Join(l.OrderIDs, ","), l.Reason}
	}
	return table(p.stdout, "ID\tSTATE\tTOPIC\tDIED\tATTEMPTS\tSENT\tORDERS\tREASON", rows)
}

type dlqShow struct {
	settings
	ID   string `arg:"" help:"Id of the dead letter."`
	JSON bool   `name:"json" help:"Print JSON."`
}

func (c *dlqShow) Run(ctx context.Context, p *program) error {
	var raw json.RawMessage
	err := withOperator(ctx, p, &c.settings, func(o *app.Operator) error {
		return o.Do(ctx, "GET", "/dead-letters/"+url.PathEscape(c.ID), nil, &raw)
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(p.stdout, raw)
	}
	var l struct {
		letter
		MessageID    string            `json:"messageId"`
		FirstAt      time.Time         `json:"firstAt"`
		Note         string            `json:"note"`
		Raw          string            `json:"raw"`
		Reservations []json.RawMessage `json:"reservations"`
	}
	if err := json.Unmarshal(raw, &l); err != nil {
		return err
	}
	rows := [][]string{{"state", l.State}, {"topic", l.Topic}, {"message", l.MessageID}, {"reason", l.Reason}, {"died", shortTime(l.FirstAt) + ", last " + shortTime(l.LastAt)},
		{"attempts", decimal(l.Attempts)}, {"sent again", decimal(l.Sent)}, {"orders", strings.Join(l.OrderIDs, ", ")}, {"note", l.Note}, {"raw", l.Raw}}
	for _, r := range l.Reservations {
		rows = append(rows, []string{"reservation", string(r)})
	}
	return table(p.stdout, "id\t"+l.ID, rows)
}

type dlqReplay struct {
	settings
	letterFilter
	IDs    []string `arg:"" optional:"" name:"id" help:"Dead letters to replay."`
	All    bool     `help:"All pending ones."`
	DryRun bool     `help:"Only count what a filter finds."`
	JSON   bool     `name:"json" help:"Print JSON."`
}

func (c *dlqReplay) Run(ctx context.Context, p *program) error {
	filtered := c.letterFilter != letterFilter{} || c.All
	if filtered == (len(c.IDs) > 0) {
		return usageError{errors.New("name dead letters, or a filter, or --all; not both")}
	}
	if c.DryRun && !filtered {
		return usageError{errors.New("--dry-run counts what a filter finds; use tandian dlq show for one")}
	}
	return withOperator(ctx, p, &c.settings, func(o *app.Operator) error {
		if filtered {
			return c.replayFiltered(ctx, p, o)
		}
		return c.replayEach(ctx, p, o)
	})
}

func (c *dlqReplay) replayEach(ctx context.Context, p *program, o *app.Operator) error {
	replayed := []json.RawMessage{}
	var failed error
	for _, letterID := range c.IDs {
		var l json.RawMessage
		if err := o.Do(ctx, "POST", "/dead-letters/"+url.PathEscape(letterID)+"/replay", nil, &l); err != nil {
			failed = errors.Join(failed, fmt.Errorf("dead letter %s: %w", letterID, err))
			continue
		}
		replayed = append(replayed, l)
		if !c.JSON {
			fmt.Fprintf(p.stdout, "dead letter %s was sent again; it is fixed once its consumer succeeds\n", letterID)
		}
	}
	if c.JSON {
		failed = errors.Join(failed, printJSON(p.stdout, map[string]any{"items": replayed}))
	}
	return failed
}

func (c *dlqReplay) replayFiltered(ctx context.Context, p *program, o *app.Operator) error {
	in := map[string]any{"dryRun": c.DryRun}
	for key, value := range map[string]string{"topic": c.Topic, "q": c.Query, "orderId": c.Order} {
		if value != "" {
			in[key] = value
		}
	}
	var out struct {
		Matched       int `json:"matched"`
		Replayed      int `json:"replayed"`
		NotReplayable int `json:"notReplayable"`
		Failed        int `json:"failed"`
	}
	if err := o.Do(ctx, "POST", "/dead-letters/replay", in, &out); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(p.stdout, out)
	}
	verb := "sent again"
	if c.DryRun {
		verb = "would be sent again"
	}
	_, err := fmt.Fprintf(p.stdout, "%d match, %d %s, %d can't be replayed, %d failed\n", out.Matched, out.Replayed, verb, out.NotReplayable, out.Failed)
	return err
}

type dlqIgnore struct {
	settings
	ID   string `arg:"" help:"Id of the dead letter."`
	Note string `required:"" placeholder:"TEXT" help:"Why, for whoever looks later."`
	JSON bool   `name:"json" help:"Print JSON."`
}

func (c *dlqIgnore) Run(ctx context.Context, p *program) error {
	return withOperator(ctx, p, &c.settings, func(o *app.Operator) error {
		var raw json.RawMessage
		var l letter
		if err := o.Do(ctx, "POST", "/dead-letters/"+url.PathEscape(c.ID)+"/ignore", map[string]string{"note": c.Note}, &raw); err != nil {
			return err
		}
		if c.JSON {
			return printJSON(p.stdout, raw)
		}
		if err := json.Unmarshal(raw, &l); err != nil {
			return err
		}
		_, err := fmt.Fprintf(p.stdout, "dead letter %s is %s\n", l.ID, l.State)
		return err
	})
}
