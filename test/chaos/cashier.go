package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"tandian/internal/payment/sandbox"
	"tandian/test/history"
)

// pay begins to pay, goes to the cashier and chooses there what happens: pay, fail, late or silent. An order that can't
// be paid any more isn't.
func (d *dealing) pay(door int, action string) error {
	begun, a, err := d.insist(door, history.Act{Kind: history.Begin}, func(ctx context.Context, at *instance) (answer, error) {
		return d.ask(ctx, at, "POST", "/api/v1/orders/"+d.orderID+"/payments", d.buyer.token, `{"provider":"sandbox"}`)
	})
	if err != nil || begun.Outcome != history.OK {
		return err
	}
	var cashier struct{ PayURL string }
	if err := json.Unmarshal([]byte(a.text), &cashier); err != nil {
		return err
	}
	paid, _, err := d.insist(door+1, history.Act{Kind: history.Pay, PaymentID: begun.PaymentID}, func(ctx context.Context, at *instance) (answer, error) {
		return d.ask(ctx, at, "POST", cashier.PayURL, "", fmt.Sprintf(`{"action":%q,"refunds":%q}`, action, d.refunds))
	})
	if err != nil || paid.Status != "paid" {
		return err
	}
	d.paid(begun.PaymentID)
	if action == "silent" {
		return nil
	}
	return d.callBack(begun.PaymentID)
}

// paid notes that the provider has taken the money of a payment.
func (d *dealing) paid(paymentID string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.payments = append(d.payments, paymentID)
}

// callBack delivers the provider's notification as often as planned, all at once, each with an envelope of its own.
func (d *dealing) callBack(paymentID string) error {
	if d.copies == 0 {
		return nil
	}
	body, err := d.notification(paymentID)
	if err != nil {
		return err
	}
	deliver := func(door int) error {
		_, _, err := d.insist(door, history.Act{Kind: history.Notify, PaymentID: paymentID}, func(ctx context.Context, at *instance) (answer, error) {
			return d.ask(ctx, at, "POST", "/api/v1/payments/"+sandbox.Name+"/notify", "", string(body), d.envelope(body)...)
		})
		return err
	}
	copies := make([]func(int) error, d.copies)
	for i := range copies {
		copies[i] = deliver
	}
	return d.together(copies...)
}

// notification is what the provider says of a paid trade, byte for byte, out of its books.
func (d *dealing) notification(paymentID string) ([]byte, error) {
	var t struct {
		TradeNo        string
		Amount, PaidAt int64
	}
	for begun := time.Now(); ; {
		err := d.db.Read.NewRaw(`SELECT trade_no, amount, paid_at FROM sandbox_trade WHERE payment_id = ?`, paymentID).Scan(d.ctx, &t)
		if err == nil {
			break
		}
		if errors.Is(err, sql.ErrNoRows) || time.Since(begun) > actsWithin {
			return nil, fmt.Errorf("trade of payment %s: %w", paymentID, err)
		}
		if err := wait(d.ctx, 100*time.Millisecond); err != nil { // the database is away
			return nil, err
		}
	}
	var b bytes.Buffer
	_, err := fmt.Fprintf(&b, `{"noticeId":%q,"merchantId":%q,"paymentId":%q,"tradeNo":%q,"state":"paid","amount":%d,"currency":"CNY","paidAt":%d}`,
		t.TradeNo, sandbox.Merchant, paymentID, t.TradeNo, t.Amount, t.PaidAt)
	return b.Bytes(), err
}

// envelope is the headers of one delivery, signed as internal/payment/sandbox documents it.
func (w *town) envelope(body []byte) []string {
	timestamp, nonce := strconv.FormatInt(time.Now().Unix(), 10), rand.Text()
	h := hmac.New(sha256.New, w.secret)
	fmt.Fprintf(h, "%s\n%s\n%s", timestamp, nonce, body)
	return []string{"X-Sandbox-Timestamp", timestamp, "X-Sandbox-Nonce", nonce, "X-Sandbox-Signature", hex.EncodeToString(h.Sum(nil))}
}

const messageSecret = "0123456789abcdef0123456789abcdef"

// findSecret learns what the provider signs with. In the production mode it is derived from what all instances share.
func (w *town) findSecret() (err error) {
	if w.broker == brokerSQL {
		w.secret, err = os.ReadFile(filepath.Join(w.instances[0].dir, sandbox.Name+".key"))
		return err
	}
	h := hmac.New(sha256.New, []byte(messageSecret))
	fmt.Fprint(h, "tandian secret\n"+sandbox.Name)
	w.secret = h.Sum(nil)
	return nil
}

// reconcile asks an instance to compare all money with all orders, as tandian reconcile --money does.
func (c *cycle) reconcile(ctx context.Context, at *instance) (differences []string, err error) {
	var report struct {
		Found []struct{ Kind, Cause, OrderID, PaymentID string }
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // it looks at all sales there have been
	defer cancel()
	a, err := c.as(ctx, operatorPhone, at, http.MethodGet, "/api/v1/console/reconciliations/money", "")
	if err != nil || a.status != http.StatusOK {
		return nil, errors.Join(err, fmt.Errorf("reconcile: %d %s", a.status, a.text))
	}
	if err := json.Unmarshal([]byte(a.text), &report); err != nil {
		return nil, err
	}
	for _, f := range report.Found {
		differences = append(differences, fmt.Sprintf("%s reconciles: order %s, payment %s: %s: %s", at.name, f.OrderID, f.PaymentID, f.Kind, f.Cause))
	}
	return differences, nil
}

// moneyUnderWay counts what keeps the sale's money from being at rest: orders that wait for it, money that is paid and
// not here or may yet be paid, callbacks that wait for their order, refunds that are asked for.
func (c *cycle) moneyUnderWay(ctx context.Context) (n int64, err error) {
	const ofSale = ` AND o.sale_id = ?)`
	now := time.Now()
	err = c.db.Read.NewRaw(`SELECT
		(SELECT COUNT(*) FROM orders AS o WHERE o.status = 1 AND o.pay_before < ?`+ofSale+`
		+ (SELECT COUNT(*) FROM refund AS r JOIN orders AS o ON o.id = r.order_id WHERE r.status = 1`+ofSale+`
		+ (SELECT COUNT(*) FROM payment_notice AS n JOIN payment AS p ON p.id = n.payment_id JOIN orders AS o ON o.id = p.order_id WHERE n.applied_at IS NULL`+ofSale+`
		+ (SELECT COUNT(*) FROM sandbox_trade AS t JOIN payment AS p ON p.id = t.payment_id JOIN orders AS o ON o.id = p.order_id
			WHERE (t.paid_at IS NOT NULL AND p.status <> 2 OR t.paid_at IS NULL AND t.status = 1 AND t.expires_at > ?)`+ofSale,
		now.Add(time.Hour).UnixMilli(), c.sale, c.sale, c.sale, now.UnixMilli(), c.sale).Scan(ctx, &n)
	return n, err
}

// lastCause is when the last lever has been let go and the last deadline is past: from then on the sale comes to rest.
func (c *cycle) lastCause(ctx context.Context) (time.Time, error) {
	var deadline int64
	err := c.db.Read.NewRaw(`SELECT COALESCE(MAX(pay_before), 0) FROM orders WHERE sale_id = ? AND pay_before < ?`, c.sale, time.Now().Add(time.Hour).UnixMilli()).Scan(ctx, &deadline)
	if last := time.UnixMilli(deadline); last.After(c.lifted) {
		return last, err
	}
	return c.lifted, err
}
