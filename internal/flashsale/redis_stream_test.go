package flashsale_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"tandian/internal/flashsale"
	"tandian/internal/kit/id"
	"tandian/internal/order"
)

const saleStream = "{sale:42}:stream"

// appendingGate is a gate that puts whom it admits into the queue, on an emptied database, and an operator's client.
type appendingGate struct {
	gateBundle
	client rueidis.Client
}

func openAppendingGate(t testing.TB) appendingGate {
	g := openRedisGate(t, newClock())
	g.Gate.(*flashsale.RedisGate).Append = true
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{os.Getenv("TANDIAN_REDIS_ADDR")}, SelectDB: 2, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return appendingGate{g, client}
}

func (g appendingGate) do(t testing.TB, words ...string) rueidis.RedisResult {
	t.Helper()
	res := g.client.Do(t.Context(), g.client.B().Arbitrary(words...).Build())
	if err := res.Error(); err != nil && !rueidis.IsRedisNil(err) {
		t.Fatal(words, err)
	}
	return res
}

// queued returns the reservations of each entry of the sale's stream.
func (g appendingGate) queued(t testing.TB) (messages [][]order.Reservation) {
	t.Helper()
	entries, err := g.do(t, "XRANGE", saleStream, "-", "+").AsXRange()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		rs, err := order.Decode([]byte(e.FieldValues["body"]))
		if err != nil {
			t.Fatalf("%v: %s", err, e.FieldValues["body"])
		}
		messages = append(messages, rs)
	}
	return messages
}

// A gate that appends is a gate like the others.
func TestGateContractAppending(t *testing.T) {
	gateContract(t, func(t testing.TB) gateBundle { return openAppendingGate(t).gateBundle })
}

// S8: who is admitted is in the queue by the same step, as the writer reads it, once; who isn't, isn't.
func TestAdmittedIsQueued(t *testing.T) {
	g := openAppendingGate(t)
	g.load(t, g.snapshot(3, 2))
	var want []order.Reservation
	admit := func(orderID, userID id.ID, key string) flashsale.Verdict {
		v := g.admit(t, orderID, userID, key)
		if v.Result == flashsale.Admitted {
			want = append(want, v.Reservation)
		}
		return v
	}
	const big = 1<<62 + 1
	admit(1, 1, "a")
	admit(2, 1, strings.Repeat("k", order.MaxRequestID))
	admit(big, big, `"quoted" \ 探店`)
	for _, v := range []flashsale.Verdict{admit(4, 1, "a"), admit(1, 1, "b"), admit(5, 1, "c"), admit(6, 3, "d")} {
		if v.Result == flashsale.Admitted {
			t.Fatalf("%+v", v)
		}
	}
	if len(want) != 3 {
		t.Fatal(want)
	}
	if diff := cmp.Diff(want, slices.Concat(g.queued(t)...)); diff != "" {
		t.Fatal(diff)
	}
}

// Load and Unload leave what is in the queue alone; an empty stream goes with its sale.
func TestAGateComesAndGoesWithoutItsStream(t *testing.T) {
	g := openAppendingGate(t)
	g.load(t, g.snapshot(3, 1))
	g.admit(t, 1, 1, "a")
	streams := func(open ...id.ID) []string {
		keys, err := g.Gate.(*flashsale.RedisGate).Streams(t.Context(), open)
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	unload := func() {
		if err := g.Unload(t.Context(), saleID); err != nil {
			t.Fatal(err)
		}
	}
	unload()
	if st, err := g.Standing(t.Context(), saleID); err != nil || st.Loaded {
		t.Fatal(st, err)
	}
	if keys := streams(); !slices.Equal(keys, []string{saleStream}) || len(g.queued(t)) != 1 {
		t.Fatal("a stream with an order is forgotten:", keys)
	}
	s := g.snapshot(2, 1)
	s.Epoch = 2
	g.load(t, s)
	if len(g.queued(t)) != 1 {
		t.Fatal("a load has touched the stream")
	}
	g.do(t, "XTRIM", saleStream, "MAXLEN", "0") // all done
	unload()
	if n, err := g.do(t, "EXISTS", saleStream).AsInt64(); err != nil || n != 0 || len(streams()) != 0 {
		t.Fatal(n, err, streams())
	}
	if keys := streams(saleID, 43); !slices.Equal(keys, []string{saleStream, "{sale:43}:stream"}) {
		t.Fatal("open sales count whatever Redis remembers:", keys)
	}
}

// F12: where the stream should be is something else. Nobody is admitted, certainly, and nothing is taken.
func TestAStreamOfTheWrongType(t *testing.T) {
	g := openAppendingGate(t)
	g.load(t, g.snapshot(1, 1))
	g.do(t, "SET", saleStream, "x")
	if _, err := g.Admit(t.Context(), saleID, flashsale.Request{OrderID: 1, UserID: 1, RequestID: "a"}); !errors.Is(err, flashsale.ErrNotDone) {
		t.Fatal(err)
	}
	g.do(t, "DEL", saleStream)
	g.want(t, 1, 0, 0)
	if v := g.admit(t, 1, 1, "a"); v.Result != flashsale.Admitted {
		t.Fatal(v)
	}
}
