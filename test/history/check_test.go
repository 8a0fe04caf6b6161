package history_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"tandian/internal/kit/store"
	"tandian/internal/kit/store/storetest"
	"tandian/test/history"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return noon.Add(time.Duration(ms) * time.Millisecond) }

// record is a history and a world that a test may spoil.
type record struct {
	ops       []history.Op
	acts      []history.Act
	sightings []history.Sighting
	samples   []history.Sample
	history.World
}

// honest is the record of a sale in which nothing went wrong: a buyer is told his order at once, one asks twice because
// the first answer got lost, one never gets an answer though he has an order, one is refused and succeeds with the same
// key, one comes too late, one is told of an order which then fails.
func honest() *record {
	op := func(user, key string, start, end int, o history.Outcome, detail string) history.Op {
		op := history.Op{User: user, Sale: "1", RequestID: key, Start: at(start), End: at(end), Outcome: o}
		if o == history.OK {
			op.OrderID = detail
		} else {
			op.Code = detail
		}
		return op
	}
	row := func(id, user, key, status string, admitted int) history.Row {
		return history.Row{ID: id, Sale: "1", User: user, RequestID: key, Status: status, AdmittedAt: at(admitted), PayBefore: at(admitted + 1800_000)}
	}
	r := &record{
		ops: []history.Op{
			op("anna", "a", 0, 10, history.OK, "101"),
			op("bert", "b", 100, 5000, history.Info, ""),
			op("bert", "b", 5100, 5110, history.OK, "102"),
			op("cora", "c", 200, 5000, history.Info, ""),
			op("dora", "d", 1000, 1010, history.Fail, "sale.busy"),
			op("dora", "d", 6000, 6010, history.OK, "104"),
			op("emil", "e", 7000, 7010, history.Fail, "sale.sold_out"),
			op("fred", "f", 300, 310, history.OK, "106"),
			op("anna", "a2", 7000, 7010, history.Fail, "sale.limit_reached"),
		},
		sightings: []history.Sighting{{OrderID: "101", Status: "queued", At: at(20)}, {OrderID: "101", Status: "unpaid", At: at(40)}},
		samples:   []history.Sample{{Sale: "1", At: at(3000), Released: 5, Live: 3, Stock: 2}},
		World: history.World{
			Sales: map[string]history.Sale{"1": {Limit: 1, BeginsAt: noon, EndsAt: at(3600_000), Released: 5, Stock: 1, Gate: 1, Held: 4, AtRest: true}},
			Rows: map[string]history.Row{
				"101": row("101", "anna", "a", "unpaid", 5), "102": row("102", "bert", "b", "unpaid", 110), "103": row("103", "cora", "c", "unpaid", 210),
				"104": row("104", "dora", "d", "unpaid", 6005), "105": row("105", "dora", "", "failed", 1005), "106": row("106", "fred", "f", "failed", 305),
			},
			Shown: map[string]string{"101": "unpaid", "102": "unpaid", "104": "unpaid", "106": "failed"},
			Rest:  time.Second, Bound: 30 * time.Second,
		},
	}
	r.ops[8].Named = []string{"101"}
	refused, soldOut := r.Rows["105"], r.Rows["106"]
	refused.Reason, soldOut.Reason = "refused", "sold_out"
	r.Rows["105"], r.Rows["106"] = refused, soldOut
	return r
}

func (r *record) check() *history.Report {
	h := &history.History{}
	for _, op := range r.ops {
		h.Add(op)
	}
	for _, a := range r.acts {
		h.Did(a)
	}
	for _, s := range r.sightings {
		h.See(s)
	}
	for _, s := range r.samples {
		h.Look(s)
	}
	return history.Check(h, r.World)
}

func TestAnHonestSaleIsClean(t *testing.T) {
	got := honest().check()
	if len(got.Violations) > 0 || got.Attempted != 9 || got.OK != 4 || got.Fail != 3 || got.Info != 2 ||
		got.Lost != 0 || got.Ghost != 0 || got.Duplicated != 0 || got.Recovered != 2 {
		t.Fatal(got)
	}
}

// Each way to break a promise is seen, under the name of the promise.
func TestEachBrokenPromiseIsSeen(t *testing.T) {
	row := func(r *record, id string, change func(*history.Row)) {
		row := r.Rows[id]
		change(&row)
		r.Rows[id] = row
	}
	sale := func(r *record, change func(*history.Sale)) {
		s := r.Sales["1"]
		change(&s)
		r.Sales["1"] = s
	}
	for name, tc := range map[string]struct {
		invariant               string
		lost, ghost, duplicated int
		spoil                   func(*record)
	}{
		"more orders than units":       {"I1", 0, 0, 0, func(r *record) { sale(r, func(s *history.Sale) { s.Released = 3 }) }},
		"stock below zero":             {"I1", 0, 0, 0, func(r *record) { sale(r, func(s *history.Sale) { s.Stock = -1 }) }},
		"oversold for a moment":        {"I1", 0, 0, 0, func(r *record) { r.samples[0].Live = 6 }},
		"more than the limit":          {"I2", 0, 1, 0, func(r *record) { row(r, "103", func(o *history.Row) { o.User = "bert" }) }},
		"failed without a reason":      {"I3", 0, 0, 0, func(r *record) { row(r, "106", func(o *history.Row) { o.Reason = "" }) }},
		"paid and then unpaid":         {"I3", 0, 0, 0, func(r *record) { r.sightings[0].Status = "paid" }},
		"closed and then paid":         {"I3", 0, 0, 0, func(r *record) { r.sightings[1].Status = "closed" }},
		"a unit that vanished":         {"I4", 0, 0, 0, func(r *record) { sale(r, func(s *history.Sale) { s.Stock, s.Gate = 0, 0 }) }},
		"a unit given back twice":      {"I4", 0, 0, 0, func(r *record) { sale(r, func(s *history.Sale) { s.Gate = 2 }) }},
		"a slot kept at the gate":      {"I4", 0, 0, 0, func(r *record) { sale(r, func(s *history.Sale) { s.Held = 5 }) }},
		"told and nowhere":             {"I6", 1, 0, 0, func(r *record) { delete(r.Rows, "106") }},
		"told to one, written for two": {"I6", 0, 1, 0, func(r *record) { row(r, "101", func(o *history.Row) { o.User = "gerd" }) }},
		"not found by its owner":       {"I6", 0, 0, 0, func(r *record) { r.Shown["102"] = "" }},
		"not found for a moment":       {"I6", 0, 0, 0, func(r *record) { r.sightings[0].Status = "" }},
		"shown another state":          {"I6", 0, 0, 0, func(r *record) { r.Shown["102"] = "queued" }},
		"named and nowhere":            {"I6", 0, 0, 0, func(r *record) { r.ops[8].Named = []string{"999"} }},
		"named, another's":             {"I6", 0, 0, 0, func(r *record) { r.ops[8].Named = []string{"102"} }},
		"an order of a late comer":     {"I7", 0, 1, 0, func(r *record) { row(r, "103", func(o *history.Row) { o.User, o.RequestID = "emil", "e" }) }},
		"an order nobody asked for":    {"I7", 0, 1, 0, func(r *record) { row(r, "103", func(o *history.Row) { o.User = "gerd" }) }},
		"busy, and an order after all": {"I7", 0, 1, 0, func(r *record) { row(r, "104", func(o *history.Row) { o.AdmittedAt = at(1005) }) }},
		"admitted before the begin":    {"I10", 0, 0, 0, func(r *record) { sale(r, func(s *history.Sale) { s.BeginsAt = at(50) }) }},
		"admitted at the end":          {"I10", 0, 0, 0, func(r *record) { sale(r, func(s *history.Sale) { s.EndsAt = at(6005) }) }},
		"never at rest":                {"I11", 0, 0, 0, func(r *record) { sale(r, func(s *history.Sale) { s.AtRest = false }) }},
		"at rest too late":             {"I11", 0, 0, 0, func(r *record) { r.Rest = time.Minute }},
		"one order for two keys":       {"B7", 1, 1, 1, func(r *record) { r.ops[5].OrderID = "102"; delete(r.Rows, "104"); r.ops[0].OrderID = "104" }},
		"two orders for one key": {"B7", 0, 0, 1, func(r *record) {
			again := r.ops[2]
			again.OrderID = "103"
			r.ops = append(r.ops, again)
			row(r, "103", func(o *history.Row) { o.User, o.RequestID = "bert", "b" })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := honest()
			tc.spoil(r)
			got := r.check()
			if !got.Broken(tc.invariant) || got.Lost != tc.lost || got.Ghost != tc.ghost || got.Duplicated != tc.duplicated || !strings.Contains(got.String(), tc.invariant) {
				t.Fatalf("want %s: %v", tc.invariant, got)
			}
		})
	}
}

// A key whose order failed may mean another one afterwards.
func TestAKeyMayMeanAnotherOrderAfterAFailure(t *testing.T) {
	r := honest()
	again := r.ops[7]
	again.Start, again.End, again.OrderID = at(8000), at(8010), "107"
	r.ops = append(r.ops, again)
	r.Rows["107"] = history.Row{ID: "107", Sale: "1", User: "fred", RequestID: "f", Status: "unpaid", AdmittedAt: at(8005), PayBefore: at(1808_005)}
	r.Shown["107"] = "unpaid"
	r.Sales["1"] = history.Sale{Limit: 1, BeginsAt: noon, EndsAt: at(3600_000), Released: 5, Stock: 0, Gate: 0, Held: 5, AtRest: true}
	if got := r.check(); len(got.Violations) > 0 {
		t.Fatal(got)
	}
}

func TestRead(t *testing.T) {
	for _, tc := range []struct {
		status int
		body   string
		want   history.Outcome
		final  bool
	}{
		{0, "", history.Info, false},
		{202, `{"orderId":"7","status":"queued"}`, history.OK, true},
		{202, `{}`, history.Info, false},
		{409, `{"code":"sale.sold_out"}`, history.Fail, true},
		{409, `{"code":"sale.limit_reached","orderIds":["7"]}`, history.Fail, true},
		{401, `{"code":"auth.required"}`, history.Fail, true},
		{429, `{"code":"limit.exceeded"}`, history.Fail, false},
		{503, `{"code":"sale.busy"}`, history.Fail, false},
		{503, `{"code":"sale.unknown"}`, history.Info, false},
		{503, `{"code":"auth.unknown"}`, history.Info, false},
		{500, `{"code":"internal"}`, history.Info, false},
		{502, `<html>`, history.Info, false},
		{404, `<html>`, history.Info, false},
	} {
		var op history.Op
		op.Read(tc.status, []byte(tc.body))
		if op.Outcome != tc.want || op.Final() != tc.final || (op.OrderID == "7") != (tc.want == history.OK) {
			t.Errorf("%d %s: %+v", tc.status, tc.body, op)
		}
	}
}

// The world is read from either database alike.
func TestReadSale(t *testing.T) {
	db := storetest.SQLite(t)
	for _, stmt := range []string{
		`INSERT INTO sale (id, voucher_id, stock, stock_released, begins_at, ends_at, limit_per_user, created_at, updated_at) VALUES (4, 7, 3, 5, 1700000000000, 1700000001500, 2, 1, 1)`,
		`INSERT INTO orders (id, sale_id, voucher_id, user_id, slot, request_id, status, amount, admitted_at, pay_before, created_at, updated_at)
			VALUES (658000000000000001, 4, 7, 9, 0, 'key-00000001', 2, 4750, 1700000000001, 1700000001000, 1, 1)`,
		`INSERT INTO orders (id, sale_id, voucher_id, user_id, status, reason, amount, admitted_at, pay_before, created_at, updated_at)
			VALUES (658000000000000002, 4, 7, 9, 7, 'refused', 4750, 1700000000002, 1700000001000, 1, 1)`,
		`INSERT INTO order_move (order_id, from_status, to_status, reason, actor, at) VALUES (658000000000000001, 1, 2, 'r', '9', 1700000000500)`,
		`INSERT INTO payment (id, order_id, provider, amount, status, trade_no, paid_at, created_at, updated_at) VALUES
			(31, 658000000000000001, 'sandbox', 4750, 2, 't1', 1700000000400, 1, 1), (32, 658000000000000001, 'sandbox', 4750, 1, '', NULL, 1, 1)`,
		`INSERT INTO refund (id, order_id, payment_id, amount, reason, status, next_at, created_at, updated_at) VALUES
			(41, 658000000000000001, 31, 4750, 'late', 2, 1, 1, 1), (42, 658000000000000001, 32, 4750, 'late', 1, 1, 1, 1)`,
		`INSERT INTO sandbox_trade (trade_no, payment_id, amount, status, paid_at, expires_at, created_at, updated_at) VALUES
			('t1', 31, 4750, 2, 1700000000400, 1, 1, 1), ('t2', 32, 4750, 1, 4000000000000, 1, 1, 1)`,
		`INSERT INTO sandbox_refund (refund_id, trade_no, amount, status, created_at, updated_at) VALUES (41, 't1', 4750, 2, 1, 1), (42, 't2', 4750, 1, 1, 1)`,
	} {
		if _, err := db.Write.Exec(stmt); err != nil {
			t.Fatal(err)
		}
	}
	var w history.World
	if err := w.ReadSale(t.Context(), db, "4"); err != nil {
		t.Fatal(err)
	}
	ms := func(ms int64) time.Time { return store.Time(ms) }
	s, rows := w.Sales["4"], w.Rows
	if s.Limit != 2 || s.Released != 5 || s.Stock != 3 || s.EndsAt.Sub(s.BeginsAt) != 1500*time.Millisecond || len(rows) != 2 {
		t.Fatalf("%+v", w)
	}
	want := []history.Row{
		{ID: "658000000000000001", Sale: "4", User: "9", RequestID: "key-00000001", Status: "paid", Amount: 4750, AdmittedAt: ms(1700000000001), PayBefore: ms(1700000001000)},
		{ID: "658000000000000002", Sale: "4", User: "9", Status: "failed", Reason: "refused", Amount: 4750, AdmittedAt: ms(1700000000002), PayBefore: ms(1700000001000)},
	}
	if got := []history.Row{rows["658000000000000001"], rows["658000000000000002"]}; !slices.Equal(got, want) {
		t.Fatalf("%+v", got)
	}
	if got := w.Moves["658000000000000001"]; len(w.Moves) != 1 || !slices.Equal(got, []history.Move{{From: "unpaid", To: "paid", Reason: "r", By: "9", At: ms(1700000000500)}}) {
		t.Errorf("%+v", w.Moves)
	}
	if got := w.Payments["31"]; len(w.Payments) != 2 || got != (history.Payment{ID: "31", OrderID: "658000000000000001", Amount: 4750, Captured: true, PaidAt: ms(1700000000400)}) || w.Payments["32"].Captured {
		t.Errorf("%+v", w.Payments)
	}
	if !slices.Equal(w.Paybacks, []history.Payback{{ID: "41", PaymentID: "31", Amount: 4750, Done: true}, {ID: "42", PaymentID: "32", Amount: 4750}}) {
		t.Errorf("%+v", w.Paybacks)
	}
	future := history.Trade{Amount: 4750} // its money is on its way
	if len(w.Trades) != 2 || w.Trades["31"] != (history.Trade{Paid: true, Amount: 4750, Back: 4750}) || w.Trades["32"] != future {
		t.Errorf("%+v", w.Trades)
	}
	if err := w.ReadSale(t.Context(), db, "5"); err == nil {
		t.Fatal("there is no sale 5")
	}
}
