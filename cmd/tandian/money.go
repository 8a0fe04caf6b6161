package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"tandian/internal/app"
)

// moneyReport is a look at all money as the console's API has it; amounts are fen.
type moneyReport struct {
	Captured int64 `json:"captured"`
	Refunded int64 `json:"refunded"`
	Asked    int64 `json:"asked"`
	Paid     int64 `json:"paid"`
	Payments int64 `json:"payments"`
	Orders   int64 `json:"orders"`
	Open     int64 `json:"open"`
	Found    []struct {
		Kind      string `json:"kind"`
		Cause     string `json:"cause"`
		OrderID   string `json:"orderId"`
		PaymentID string `json:"paymentId"`
		RefundID  string `json:"refundId"`
	} `json:"found"`
}

// money compares money with orders and exits with 3 if they disagree.
func (c *reconcileCommand) money(ctx context.Context, p *program) error {
	if c.Sale != "" || c.Apply != "" {
		return usageError{errors.New("--money looks at all orders and has no plan; leave out --sale and --apply")}
	}
	var raw json.RawMessage
	err := withOperator(ctx, p, &c.settings, func(o *app.Operator) error {
		return o.Do(ctx, "GET", "/reconciliations/money", nil, &raw)
	})
	if err != nil {
		return err
	}
	var r moneyReport
	if err := json.Unmarshal(raw, &r); err != nil {
		return err
	}
	if c.JSON {
		err = printJSON(p.stdout, raw)
	} else {
		err = printMoney(p, &r)
	}
	if err == nil && len(r.Found) > 0 {
		err = differenceError{len(r.Found)}
	}
	return err
}

func printMoney(p *program, r *moneyReport) error {
	rows := [][]string{{yuan(r.Captured), yuan(r.Refunded), yuan(r.Asked), yuan(r.Captured - r.Refunded - r.Asked), yuan(r.Paid), decimal(r.Payments), decimal(r.Orders), decimal(r.Open)}}
	if err := table(p.stdout, "CAPTURED\tREFUNDED\tASKED\tKEPT\tPAID ORDERS\tPAYMENTS\tORDERS\tOPEN", rows); err != nil {
		return err
	}
	for _, d := range r.Found {
		fmt.Fprintf(p.stdout, "\n%s: %s\n", d.Kind, d.Cause)
		for _, named := range [][2]string{{"order", d.OrderID}, {"payment", d.PaymentID}, {"refund", d.RefundID}} {
			if named[1] != "" {
				fmt.Fprintf(p.stdout, "  %s: %s\n", named[0], named[1])
			}
		}
	}
	if len(r.Found) > 0 {
		return nil
	}
	_, err := fmt.Fprintln(p.stdout, "\nno differences")
	return err
}

// yuan shows fen.
func yuan(fen int64) string {
	sign := ""
	if fen < 0 {
		sign, fen = "-", -fen
	}
	return fmt.Sprintf("%s¥%d.%02d", sign, fen/100, fen%100)
}
