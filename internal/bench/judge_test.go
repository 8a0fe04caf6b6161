package bench

import (
	"strings"
	"testing"
	"time"
)

// recorded is a small sale in which all went well: stock 2, limit 1; users 0 and
// 1 got an order, user 0 repeated with his key and with another, user 2 found
// nothing left, user 3 never got an answer, user 4's order was refused later.
func recorded() (*History, Facts) {
	begin := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	second := func(n int) time.Duration { return time.Duration(n) * time.Second }
	during := begin.Add(time.Minute)
	op := func(user, key int, at int, o Outcome, id string) Op {
		return Op{User: user, Key: key, Start: second(at), End: second(at) + time.Millisecond, Outcome: o, ID: id, ServerTime: during}
	}
	repeated := op(0, 1, 3, LimitReached, "")
	repeated.IDs = []string{"100"}
	early, late := op(5, 0, 0, NotStarted, ""), op(6, 0, 9, Ended, "")
	early.Want, late.Want = NotStarted, Ended
	h := &History{Ops: []Op{
		early, op(0, 0, 1, Accepted, "100"), op(0, 0, 2, Accepted, "100"), repeated, op(1, 0, 4, Accepted, "101"),
		op(4, 0, 5, Accepted, "104"), op(2, 0, 6, SoldOut, ""), op(3, 0, 7, Unknown, ""), late,
	}}
	gate := int64(0)
	order := func(user, status string) Order {
		return Order{Owner: user, Status: status, AdmittedAt: during, Reason: map[string]string{"failed": "sold_out"}[status]}
	}
	return h, Facts{
		Sales: []SaleFacts{{
			Limit: 1, BeginsAt: begin, EndsAt: begin.Add(time.Hour), Released: 2, Stock: 0, Gate: &gate, Live: 2, Failed: 1, PeakLive: 2, AtRest: true,
		}},
		Lookups:  map[string]Order{"100": order("u0", "unpaid"), "101": order("u1", "unpaid"), "104": order("u4", "failed")},
		Rows:     map[string]Order{"100": order("u0", "unpaid"), "101": order("u1", "unpaid"), "104": order("u4", "failed")},
		Complete: true, Planted: map[string]bool{}, Excused: map[string]bool{"u3": true}, Unverified: map[string]bool{},
	}
}

func TestJudge(t *testing.T) {
	h, f := recorded()
	if v := Judge(h, f); !v.OK || len(v.Details) != 0 {
		t.Fatalf("a clean run is judged %+v", v)
	}
	row := Order{Owner: "u9", Status: "unpaid"}
	for _, tt := range []struct {
		name    string
		corrupt func(h *History, f *Facts)
		seen    func(v Invariants) bool
	}{
		{"more live than released", func(h *History, f *Facts) { f.Sales[0].Live, f.Sales[0].Stock = 3, -1 }, func(v Invariants) bool { return v.Oversold == 1 }},
		{"oversold for a moment", func(h *History, f *Facts) { f.Sales[0].PeakLive = 4 }, func(v Invariants) bool { return v.Oversold == 2 }},
		{"negative stock", func(h *History, f *Facts) { f.Sales[0].Stock = -3 }, func(v Invariants) bool { return v.Oversold == 3 }},
		{"a unit vanished", func(h *History, f *Facts) { f.Sales[0].Released = 3 }, func(v Invariants) bool { return !v.Conserved }},
		{"released twice", func(h *History, f *Facts) { *f.Sales[0].Gate = 1 }, func(v Invariants) bool { return !v.GateEqualsDB && v.Conserved }},
		{"restless", func(h *History, f *Facts) { f.Sales[0].AtRest = false }, func(v Invariants) bool { return !v.AtRest }},
		{"two rows of one user", func(h *History, f *Facts) { h.Ops[4].User = 0; f.Rows["101"] = Order{Owner: "u0", Status: "paid"} }, func(v Invariants) bool { return v.OverLimit == 1 && v.Ghost == 0 }},
		{"the server itself counts users over the limit", func(h *History, f *Facts) { f.Sales[0].OverLimit = 2 }, func(v Invariants) bool { return v.OverLimit == 2 }},
		{"lookup answers 404", func(h *History, f *Facts) { delete(f.Lookups, "101") }, func(v Invariants) bool { return v.Lost == 1 }},
		{"no row", func(h *History, f *Facts) { delete(f.Rows, "101") }, func(v Invariants) bool { return v.Lost == 1 }},
		{"404 right after the answer", func(h *History, f *Facts) { f.Missed = []string{"101"} }, func(v Invariants) bool { return v.Lost == 1 }},
		{"still queued", func(h *History, f *Facts) { f.Lookups["101"] = Order{Status: "queued"}; delete(f.Rows, "101") }, func(v Invariants) bool { return v.Unsettled == 1 && v.Lost == 0 }},
		{"queued while the queue is empty", func(h *History, f *Facts) {
			f.Lookups["101"] = Order{Status: "queued"}
			delete(f.Rows, "101")
			f.Sales[0].QueueEmpty = true
		}, func(v Invariants) bool { return v.Lost == 1 }},
		{"a message was lost and found", func(h *History, f *Facts) { f.Stuck = 2 }, func(v Invariants) bool { return v.Recovered == 2 && v.Lost == 0 }},
		{"a message was lost for good", func(h *History, f *Facts) { f.Stuck = 1; delete(f.Lookups, "101"); delete(f.Rows, "101") }, func(v Invariants) bool { return v.Recovered == 0 && v.Lost == 1 }},
		{"failed without a reason", func(h *History, f *Facts) { f.Lookups["104"] = Order{Status: "failed"} }, func(v Invariants) bool { return v.Unsettled == 1 }},
		{"lookup never answered, and no row", func(h *History, f *Facts) {
			delete(f.Lookups, "101")
			delete(f.Rows, "101")
			f.Unverified["101"] = true
		}, func(v Invariants) bool { return v.Unsettled == 1 && v.Lost == 0 }},
		{"a live order of a user who was refused", func(h *History, f *Facts) { f.Rows["900"] = row }, func(v Invariants) bool { return v.Ghost == 1 }},
		{"a live order nobody knows, by the count alone", func(h *History, f *Facts) {
			f.Complete, f.Rows, f.Sales[0].Live, f.Sales[0].Released = false, nil, 4, 4
		}, func(v Invariants) bool { return v.Ghost == 1 }},
		{"one id for two users", func(h *History, f *Facts) { h.Ops[4].ID = "100" }, func(v Invariants) bool { return v.Duplicate == 1 }},
		{"another order for the same key", func(h *History, f *Facts) { h.Ops[2].ID = "104" }, func(v Invariants) bool { return v.WrongReplay == 1 }},
		{"the refusal names another order", func(h *History, f *Facts) { h.Ops[3].IDs = []string{"101"} }, func(v Invariants) bool { return v.WrongReplay == 1 }},
		{"limit reached without an order", func(h *History, f *Facts) { h.Ops[6].Outcome = LimitReached }, func(v Invariants) bool { return v.WrongAnswer == 1 }},
		{"ended answers sold out", func(h *History, f *Facts) { h.Ops[8].Outcome = SoldOut }, func(v Invariants) bool { return v.WrongAnswer == 1 }},
		{"admitted before the begin", func(h *History, f *Facts) {
			o := f.Lookups["101"]
			o.AdmittedAt = f.Sales[0].BeginsAt.Add(-1)
			f.Lookups["101"] = o
		}, func(v Invariants) bool { return v.OutsideWindow == 1 }},
		{"admitted at the end", func(h *History, f *Facts) {
			o := f.Lookups["101"]
			o.AdmittedAt = f.Sales[0].EndsAt
			f.Lookups["101"] = o
		}, func(v Invariants) bool { return v.OutsideWindow == 1 }},
		{"answered before the begin", func(h *History, f *Facts) { h.Ops[4].ServerTime = f.Sales[0].BeginsAt.Add(-2 * time.Second) }, func(v Invariants) bool { return v.OutsideWindow == 1 }},
		{"accepted after the end", func(h *History, f *Facts) { h.Ops[4].Want = Ended }, func(v Invariants) bool { return v.OutsideWindow == 1 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, f := recorded()
			tt.corrupt(h, &f)
			v := Judge(h, f)
			if v.OK || !tt.seen(v) {
				t.Errorf("judged %+v", v)
			}
			if len(v.Details) == 0 {
				t.Error("no violation is described")
			}
		})
	}
}

func TestJudgeForgives(t *testing.T) {
	for _, tt := range []struct {
		name     string
		innocent func(h *History, f *Facts)
	}{
		{"an order of a user who never got an answer", func(h *History, f *Facts) { f.Rows["900"] = Order{Owner: "u3", Status: "unpaid"} }},
		{"a planted order", func(h *History, f *Facts) {
			f.Rows["900"] = Order{Owner: "u9", Status: "unpaid"}
			f.Planted["900"] = true
		}},
		{"a failed order nobody was told about", func(h *History, f *Facts) { f.Rows["900"] = Order{Owner: "u9", Status: "failed"} }},
		{"the key of a failed order trying again", func(h *History, f *Facts) {
			h.Ops = append(h.Ops, Op{User: 4, Key: 0, Start: time.Hour, Outcome: Accepted, ID: "105"})
			f.Lookups["105"], f.Rows["105"] = Order{Status: "failed", Reason: "sold_out"}, Order{Owner: "u4", Status: "failed"}
		}},
		{"a refusal that does not name an order which failed", func(h *History, f *Facts) {
			o := f.Lookups["100"]
			o.Status, o.Reason = "failed", "refused"
			f.Lookups["100"], h.Ops[3].IDs = o, nil
		}},
		{"a lookup never answered when the row is there", func(h *History, f *Facts) { delete(f.Lookups, "101"); f.Unverified["101"] = true }},
		{"a gate that is not loaded", func(h *History, f *Facts) { f.Sales[0].Gate = nil }},
		{"limit reached while a refused unit is coming back", func(h *History, f *Facts) {
			h.Ops = append(h.Ops, Op{User: 2, Key: 1, Outcome: Busy})
			h.Ops[6].Outcome = LimitReached
		}},
		{"lists that do not hold every order", func(h *History, f *Facts) { f.Complete = false; delete(f.Rows, "101") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, f := recorded()
			tt.innocent(h, &f)
			if v := Judge(h, f); !v.OK {
				t.Errorf("judged %+v", v)
			}
		})
	}
}

func TestInvariantsOfTwoSales(t *testing.T) {
	h, f := recorded()
	f.Sales = append(f.Sales, SaleFacts{Limit: 1, Released: 3, Stock: 3})
	f.Missed = []string{"100"}
	v := Judge(h, f)
	if v.OK || v.Lost != 1 || v.AtRest || !v.GateEqualsDB || !v.Conserved || !strings.Contains(strings.Join(v.Details, "\n"), "100") {
		t.Errorf("judged %+v", v)
	}
}

func TestClassify(t *testing.T) {
	for _, tt := range []struct {
		status int
		body   string
		want   Outcome
	}{
		{202, `{"orderId":"9007199254740993","status":"queued"}`, Accepted},
		{202, `{"status":"queued"}`, Unknown},
		{409, `{"code":"sale.sold_out"}`, SoldOut},
		{409, `{"code" : "sale.limit_reached", "orderIds": ["9"]}`, LimitReached},
		{409, `{"code":"sale.not_started"}`, NotStarted},
		{409, `{"code":"sale.ended"}`, Ended},
		{409, `{"code":"sale.paused"}`, Paused},
		{503, `{"code":"sale.busy"}`, Busy},
		{503, `{"code":"sale.unknown"}`, Unknown},
		{503, `no healthy upstream`, Unknown},
		{429, `{"code":"limit.exceeded"}`, Refused},
		{404, `{"code":"sale.not_found"}`, Refused},
		{500, `{"code":"internal"}`, Unknown},
		{200, `{}`, Unknown},
	} {
		var op Op
		op.classify(response{status: tt.status, body: []byte(tt.body)})
		if op.Outcome != tt.want {
			t.Errorf("%d %s is %v, want %v", tt.status, tt.body, op.Outcome, tt.want)
		}
		if tt.want == LimitReached && (len(op.IDs) != 1 || op.IDs[0] != "9") {
			t.Errorf("names %v", op.IDs)
		}
	}
}
