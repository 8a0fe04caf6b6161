package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"tandian/internal/app"
)

// withOperator hands the console's operations to a command.
func withOperator(ctx context.Context, p *program, s *settings, use func(*app.Operator) error) error {
	cfg, err := s.load(p)
	if err != nil {
		return err
	}
	quiet := *cfg
	if quiet.LogLevel == "info" {
		quiet.LogLevel = "error" // how stores are opened is a server's news
	}
	o, err := app.Operate(ctx, cfg, logger(p.stderr, &quiet))
	if err != nil {
		return err
	}
	return errors.Join(use(o), o.Close())
}

// table prints rows under a heading in columns.
func table(w io.Writer, heading string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, heading)
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}

// shortTime is a time of the wire for a table.
func shortTime(t time.Time) string { return t.Local().Format("01-02 15:04:05") }

func decimal[N int | int64](n N) string { return strconv.FormatInt(int64(n), 10) }
