package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"tandian/internal/app"
)

type reconcileCommand struct {
	settings
	Sale  string `placeholder:"ID" help:"Only this sale; otherwise all."`
	Apply string `placeholder:"PLAN" help:"Carry out the plan that an earlier run has shown."`
	Money bool   `help:"Compare payments and refunds with orders instead."`
	JSON  bool   `name:"json" help:"Print JSON."`
}

// differenceError says that what should agree doesn't, gate and database or money and orders: exit code 3.
type differenceError struct{ n int }

func (e differenceError) Error() string { return fmt.Sprintf("differences: %d", e.n) }

// reconciliation is a comparison as the console's API has it.
type reconciliation struct {
	ID       string `json:"id"`
	Sales    int    `json:"sales"`
	At       time.Time
	Accounts []struct {
		SaleID     string `json:"saleId"`
		Released   int64  `json:"released"`
		Stock      int64  `json:"stock"`
		Live       int64  `json:"live"`
		GateLoaded bool   `json:"gateLoaded"`
		GateStock  int64  `json:"gateStock"`
		Pending    int64  `json:"pending"`
		Releases   int64  `json:"releases"`
	} `json:"accounts"`
	Found []struct {
		SaleID   string   `json:"saleId"`
		Kind     string   `json:"kind"`
		Cause    string   `json:"cause"`
		Is       int64    `json:"is"`
		ShouldBe int64    `json:"shouldBe"`
		OrderIDs []string `json:"orderIds"`
		Step     string   `json:"step"`
		Outcome  string   `json:"outcome"`
	} `json:"found"`
}

// Run exits with 3 while there are differences: found ones, or steps that were not done.
func (c *reconcileCommand) Run(ctx context.Context, p *program) error {
	if c.Money {
		return c.money(ctx, p)
	}
	path, in := "/reconciliations", map[string]string{}
	if c.Sale != "" {
		in["saleId"] = c.Sale
	}
	if c.Apply != "" {
		path, in = "/reconciliations/"+url.PathEscape(c.Apply)+"/apply", nil
	}
	var raw json.RawMessage
	var r reconciliation
	err := withOperator(ctx, p, &c.settings, func(o *app.Operator) error {
		if in == nil {
			return o.Do(ctx, "POST", path, nil, &raw)
		}
		return o.Do(ctx, "POST", path, in, &raw)
	})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return err
	}
	if c.JSON {
		err = printJSON(p.stdout, raw)
	} else {
		err = c.print(p, &r)
	}
	if err != nil {
		return err
	}
	left := 0
	for _, d := range r.Found {
		if d.Outcome != "done" && d.Outcome != "changed" {
			left++
		}
	}
	if left > 0 {
		return differenceError{left}
	}
	return nil
}

func (c *reconcileCommand) print(p *program, r *reconciliation) error {
	rows := make([][]string, 0, len(r.Accounts))
	for _, a := range r.Accounts {
		gate := "not loaded"
		if a.GateLoaded {
			gate = decimal(a.GateStock)
		}
		rows = append(rows, []string{a.SaleID, decimal(a.Released), decimal(a.Stock), decimal(a.Live), gate, decimal(a.Pending), decimal(a.Releases)})
	}
	if err := table(p.stdout, "SALE\tRELEASED\tSTOCK\tLIVE\tGATE\tPENDING\tRELEASES", rows); err != nil {
		return err
	}
	for _, d := range r.Found {
		fmt.Fprintf(p.stdout, "\nsale %s: %s: %s\n", d.SaleID, d.Kind, d.Cause)
		fmt.Fprintf(p.stdout, "  step: %s: %d → %d\n", d.Step, d.Is, d.ShouldBe)
		if len(d.OrderIDs) > 0 {
			fmt.Fprintf(p.stdout, "  orders: %v\n", d.OrderIDs)
		}
		if d.Outcome != "" {
			fmt.Fprintf(p.stdout, "  outcome: %s\n", d.Outcome)
		}
	}
	if len(r.Found) == 0 {
		_, err := fmt.Fprintf(p.stdout, "\n%d sales, no differences\n", r.Sales)
		return err
	}
	if c.Apply == "" {
		_, err := fmt.Fprintf(p.stdout, "\n%d differences; to carry out these steps: tandian reconcile --apply %s\n", len(r.Found), r.ID)
		return err
	}
	return nil
}
