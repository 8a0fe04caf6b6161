package history_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tandian/test/history"
)

// dealt is the record of a sale in which nothing went wrong, and what became of its orders: one is used, after a
// redemption that was taken back; one is given up, and its buyer buys again, pays and wants his money back; one isn't paid
// in time, and late money goes back; one is paid twice. Its deadlines are ten seconds away.
func dealt() *record {
	r := &record{World: history.World{
		Sales: map[string]history.Sale{"1": {Limit: 1, BeginsAt: noon, EndsAt: at(3600_000), Released: 5, Stock: 3, Gate: 3, Held: 2, AtRest: true}},
		Rows:  map[string]history.Row{}, Shown: map[string]string{}, Moves: map[string][]history.Move{}, Payments: map[string]history.Payment{}, Trades: map[string]history.Trade{},
		Rest: time.Second, Bound: 30 * time.Second, At: at(60_000),
	}}
	order := func(id, user, key string, states ...string) {
		r.ops = append(r.ops, history.Op{User: user, Sale: "1", RequestID: key, Start: at(0), End: at(10), Outcome: history.OK, OrderID: id})
		from := "unpaid"
		for i, to := range states {
			m := history.Move{From: from, To: to, At: at(1000 * (i + 1)), By: "clerk"}
			switch to {
			case "closed", "refunding":
				m.Reason, m.By = "buyer", user
			case "paid":
				m.By = ""
			}
			r.Moves[id] = append(r.Moves[id], m)
			from = to
		}
		r.Rows[id] = history.Row{ID: id, Sale: "1", User: user, RequestID: key, Status: from, Amount: 4750, AdmittedAt: at(5), PayBefore: at(10_005)}
		r.Shown[id] = from
	}
	act := func(id string, kind history.Kind, start int, status string) {
		r.acts = append(r.acts, history.Act{OrderID: id, Kind: kind, Start: at(start), End: at(start + 200), Outcome: history.OK, Status: status})
	}
	pay := func(id, payment, status string, paid int) {
		for _, a := range []history.Act{{Kind: history.Begin}, {Kind: history.Pay, Status: status}, {Kind: history.Notify}} {
			a.OrderID, a.PaymentID, a.Start, a.End, a.Outcome = id, payment, at(500), at(600), history.OK
			r.acts = append(r.acts, a)
		}
		r.Payments[payment] = history.Payment{ID: payment, OrderID: id, Amount: 4750, Captured: true, PaidAt: at(paid)}
		r.Trades[payment] = history.Trade{Paid: true, Amount: 4750}
	}
	back := func(payment, refund string) {
		r.Paybacks = append(r.Paybacks, history.Payback{ID: refund, PaymentID: payment, Amount: 4750, Done: true})
		t := r.Trades[payment]
		t.Back = 4750
		r.Trades[payment] = t
	}
	order("201", "anna", "a", "paid", "used", "paid", "used")
	pay("201", "31", "paid", 550)
	act("201", history.Redeem, 1900, "used")
	act("201", history.Undo, 2900, "paid")
	act("201", history.Redeem, 3900, "used")
	order("202", "bert", "b", "closed")
	act("202", history.Close, 900, "closed")
	order("203", "bert", "b-anew", "paid", "refunding", "refunded")
	pay("203", "33", "paid", 550)
	act("203", history.Refund, 1900, "refunding")
	back("33", "43")
	order("204", "cora", "c", "closed")
	r.Moves["204"][0] = history.Move{From: "unpaid", To: "closed", Reason: "timeout", By: "system", At: at(12_000)}
	pay("204", "34", "onItsWay", 11_005)
	back("34", "44")
	order("205", "dora", "d", "paid")
	pay("205", "35", "paid", 550)
	pay("205", "36", "paid", 560)
	back("36", "46")
	r.Payments["37"] = history.Payment{ID: "37", OrderID: "205", Amount: 4750} // begun and left
	r.sightings = []history.Sighting{{OrderID: "201", Status: "unpaid", At: at(100)}, {OrderID: "201", Status: "paid", At: at(1100)}, {OrderID: "201", Status: "used", At: at(4100)}}
	r.samples = []history.Sample{
		{Sale: "1", At: at(1000), Released: 5, Live: 4, Stock: 1, Releases: []string{"202"}}, {Sale: "1", At: at(1050), Released: 5, Live: 4, Stock: 1, Releases: []string{"202"}},
		{Sale: "1", At: at(2000), Released: 5, Live: 4, Stock: 1}, {Sale: "1", At: at(3000), Released: 5, Live: 3, Stock: 2, Releases: []string{"203"}},
	}
	return r
}

func TestAnHonestSaleAndItsMoneyAreClean(t *testing.T) {
	got := dealt().check()
	if len(got.Violations) > 0 || got.Acted != 20 || fmt.Sprint(got.Ends) != "map[closed:2 paid:1 refunded:1 used:1]" {
		t.Fatal(got, got.Acted, got.Ends)
	}
}

// Each way to break a promise about money, deadlines and codes is seen, under the name of the promise.
func TestEachBrokenPromiseAboutMoneyIsSeen(t *testing.T) {
	payment := func(r *record, id string, change func(*history.Payment)) {
		p := r.Payments[id]
		change(&p)
		r.Payments[id] = p
	}
	trade := func(r *record, id string, change func(*history.Trade)) {
		t := r.Trades[id]
		change(&t)
		r.Trades[id] = t
	}
	row := func(r *record, id string, change func(*history.Row)) {
		row := r.Rows[id]
		change(&row)
		r.Rows[id], r.Shown[id] = row, row.Status
	}
	act := func(r *record, id string, kind history.Kind, change func(*history.Act)) {
		for i, a := range r.acts {
			if a.OrderID == id && a.Kind == kind {
				change(&r.acts[i])
				return
			}
		}
		t.Fatalf("no %s of %s", kind, id)
	}
	for name, tc := range map[string]struct {
		invariant string
		spoil     func(*record)
	}{
		"late money kept":                 {"I5", func(r *record) { r.Paybacks = r.Paybacks[:0]; trade(r, "34", func(t *history.Trade) { t.Back = 0 }) }},
		"late money on its way for ever":  {"I5", func(r *record) { r.Paybacks[1].Done = false; trade(r, "34", func(t *history.Trade) { t.Back = 0 }) }},
		"money that nobody heard of":      {"I5", func(r *record) { payment(r, "34", func(p *history.Payment) { p.Captured = false }) }},
		"money that never came":           {"I5", func(r *record) { trade(r, "31", func(t *history.Trade) { t.Paid = false }) }},
		"another amount":                  {"I5", func(r *record) { trade(r, "31", func(t *history.Trade) { t.Amount = 1 }) }},
		"paid back twice by the provider": {"I5", func(r *record) { trade(r, "36", func(t *history.Trade) { t.Back *= 2 }) }},
		"paid back without a refund":      {"I5", func(r *record) { trade(r, "31", func(t *history.Trade) { t.Back = 4750 }) }},
		"two refunds of one payment": {"I5", func(r *record) {
			r.Paybacks = append(r.Paybacks, history.Payback{ID: "49", PaymentID: "36", Amount: 4750, Done: true})
			trade(r, "36", func(t *history.Trade) { t.Back *= 2 })
		}},
		"a refund of an open attempt": {"I5", func(r *record) {
			r.Paybacks = append(r.Paybacks, history.Payback{ID: "49", PaymentID: "37", Amount: 4750, Done: true})
		}},
		"both monies kept":                {"I5", func(r *record) { r.Paybacks = r.Paybacks[:2]; trade(r, "36", func(t *history.Trade) { t.Back = 0 }) }},
		"paid without money":              {"I5", func(r *record) { delete(r.Payments, "35"); delete(r.Trades, "35") }},
		"the cashier's word":              {"I5", func(r *record) { act(r, "201", history.Pay, func(a *history.Act) { a.PaymentID = "99" }) }},
		"a callback refused":              {"I5", func(r *record) { act(r, "201", history.Notify, func(a *history.Act) { a.Outcome = history.Fail }) }},
		"a payment told and nowhere":      {"I6", func(r *record) { act(r, "201", history.Begin, func(a *history.Act) { a.PaymentID = "99" }) }},
		"a payment told, another order's": {"I6", func(r *record) { act(r, "201", history.Begin, func(a *history.Act) { a.PaymentID = "35" }) }},
		"paid by late money":              {"I10", func(r *record) { payment(r, "35", func(p *history.Payment) { p.PaidAt = at(10_005) }) }},
		"closed before the deadline":      {"I10", func(r *record) { r.Moves["204"][0].At = at(10_004) }},
		"closed too late":                 {"B6", func(r *record) { r.Moves["204"][0].At = at(40_006) }},
		"closed too late, trouble or not": {"B6", func(r *record) {
			r.Moves["204"][0].At = at(41_006)
			r.Troubles = []history.Trouble{{From: at(0), To: at(11_005)}}
		}},
		"never closed":                    {"B6", func(r *record) { row(r, "204", func(o *history.Row) { o.Status = "unpaid" }); delete(r.Moves, "204") }},
		"told closed, and paid after all": {"I3", func(r *record) { act(r, "202", history.Close, func(a *history.Act) { a.OrderID = "205" }) }},
		"told used, and never was":        {"I3", func(r *record) { act(r, "201", history.Redeem, func(a *history.Act) { a.OrderID = "205" }) }},
		"one use told twice":              {"I3", func(r *record) { r.acts = append(r.acts, r.acts[3]) }},
		"used, but at another time": {"I3", func(r *record) {
			act(r, "201", history.Redeem, func(a *history.Act) { a.Start, a.End = at(2500), at(2600) })
		}},
		"told undone, and never was":    {"I3", func(r *record) { act(r, "201", history.Undo, func(a *history.Act) { a.OrderID = "205" }) }},
		"told refunding, and never was": {"I3", func(r *record) { act(r, "203", history.Refund, func(a *history.Act) { a.OrderID = "205" }) }},
		"shown as it never was":         {"I3", func(r *record) { act(r, "203", history.Refund, func(a *history.Act) { a.Status = "used" }) }},
		"paid twice in its history":     {"I3", func(r *record) { r.Moves["205"] = append(r.Moves["205"], r.Moves["205"][0]) }},
		"closed after it was paid": {"I3", func(r *record) {
			r.Moves["205"] = append(r.Moves["205"], history.Move{From: "paid", To: "closed", Reason: "timeout", At: at(11_000)})
			row(r, "205", func(o *history.Row) { o.Status = "closed" })
		}},
		"a move that is missing":      {"I3", func(r *record) { r.Moves["203"] = r.Moves["203"][1:] }},
		"a last move that is missing": {"I3", func(r *record) { r.Moves["203"] = r.Moves["203"][:2] }},
		"seen used before it was":     {"I3", func(r *record) { r.sightings[1].Status = "used"; r.sightings[2].Status = "unpaid" }},
		"closed by nobody":            {"I3", func(r *record) { act(r, "202", history.Close, func(a *history.Act) { a.Outcome = history.Fail }) }},
		"closed by another buyer":     {"I3", func(r *record) { r.Moves["202"][0].By = "anna" }},
		"refunded by nobody":          {"I3", func(r *record) { act(r, "203", history.Refund, func(a *history.Act) { a.Start = at(2100) }) }},
		"used by nobody": {"I3", func(r *record) {
			r.Moves["205"] = append(r.Moves["205"], history.Move{From: "paid", To: "used", At: at(4000)})
			row(r, "205", func(o *history.Row) { o.Status = "used" })
		}},
		"a unit that went back twice":      {"I8", func(r *record) { r.samples[3].Releases = append(r.samples[3].Releases, "202") }},
		"a unit of a live order went back": {"I8", func(r *record) { r.samples[3].Releases[0] = "205" }},
	} {
		t.Run(name, func(t *testing.T) {
			r := dealt()
			tc.spoil(r)
			if got := r.check(); !got.Broken(tc.invariant) || !strings.Contains(got.String(), tc.invariant) {
				t.Fatalf("want %s: %v", tc.invariant, got)
			}
		})
	}
}

// Time in which something was broken doesn't count against the close of an order, and is counted once.
func TestTroubleExcusesALateClose(t *testing.T) {
	r := dealt()
	r.Moves["204"][0].At = at(45_005)
	r.Troubles = []history.Trouble{{From: at(0), To: at(13_005)}, {From: at(12_005), To: at(14_005)}, {From: at(44_005), To: at(50_005)}}
	if got := r.check(); len(got.Violations) > 0 {
		t.Error(got)
	}
	r.Moves["204"][0].At = at(44_006)
	r.Troubles = r.Troubles[:2]
	if got := r.check(); !got.Broken("B6") {
		t.Error(got)
	}
}

// An act that got no answer may have done what is found; one that was told is definite.
func TestReadAct(t *testing.T) {
	for _, tc := range []struct {
		status int
		body   string
		want   history.Outcome
		shown  string
		final  bool
	}{
		{0, "", history.Info, "", false},
		{200, `{"status":"closed"}`, history.OK, "closed", true},
		{200, `{"state":"paid","tradeNo":"7"}`, history.OK, "paid", true},
		{201, `{"paymentId":"7","payUrl":"/x"}`, history.OK, "", true},
		{409, `{"code":"order.not_closable","status":409}`, history.Fail, "", true},
		{409, `{"code":"order.queued"}`, history.Fail, "", false},
		{401, `{"code":"auth.required"}`, history.Fail, "", false},
		{429, `{"code":"limit.exceeded"}`, history.Fail, "", false},
		{503, `{"code":"order.unknown"}`, history.Info, "", false},
		{503, `try again`, history.Info, "", false},
		{500, `{"code":"internal"}`, history.Info, "", false},
		{404, `not found`, history.Info, "", false},
	} {
		var a history.Act
		a.Read(tc.status, []byte(tc.body))
		if a.Outcome != tc.want || a.Status != tc.shown || a.Final() != tc.final || (a.PaymentID == "7") != (tc.status == 201) {
			t.Errorf("%d %s: %+v", tc.status, tc.body, a)
		}
	}
}
