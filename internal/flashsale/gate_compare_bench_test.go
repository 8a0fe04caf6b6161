package flashsale_test

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"tandian/internal/flashsale"
	"tandian/internal/kit/id"
)

const (
	compareRounds = 3
	compareBuyers = 256 // at a time
	// Of the twenty figures of an order's number redis-benchmark draws twelve.
	orderPrefix = 2_834_567_000_000_000_000
	twelve      = 1_000_000_000_000
)

// nth is the i-th of a row of numbers below twelve that looks drawn and has no repetition.
func nth(i int64) int64 { return (i*618_033_988_749 + 1) % twelve }

func compareRequest(i int64) flashsale.Request {
	n := nth(i)
	return flashsale.Request{OrderID: id.ID(orderPrefix + n), UserID: id.ID(n), RequestID: fmt.Sprintf("bench-%012d", n)}
}

// compared is a Redis gate and a direct connection to its server.
type compared struct {
	gateBundle
	client rueidis.Client
	addr   string
}

func openCompared(b *testing.B) *compared {
	g := openRedisGate(b, newClock())
	addr := os.Getenv("TANDIAN_REDIS_ADDR")
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, SelectDB: 2, DisableCache: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	return &compared{g, client, addr}
}

func (c *compared) do(b *testing.B, words ...string) rueidis.RedisMessage {
	b.Helper()
	m, err := c.client.Do(b.Context(), c.client.B().Arbitrary(words...).Build()).ToMessage()
	if err != nil {
		b.Fatalf("%v: %v", words, err)
	}
	return m
}

// info reads a number out of the server's INFO.
func (c *compared) info(b *testing.B, section, pattern string) float64 {
	b.Helper()
	m := c.do(b, "INFO", section)
	text, _ := m.ToString()
	found := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if found == nil {
		b.Fatalf("INFO %s has no %s", section, pattern)
	}
	n, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// reload puts a sale up that nobody has bought at yet.
func (c *compared) reload(b *testing.B, stock int64) {
	b.Helper()
	c.do(b, "FLUSHDB")
	c.load(b, c.snapshot(stock, 1))
}

// admitAll lets buyers in as the server does, many at a time.
func (c *compared) admitAll(b *testing.B, buyers int64) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range compareBuyers {
		wg.Go(func() {
			for i := next.Add(1); i <= buyers; i = next.Add(1) {
				if v, err := c.Admit(b.Context(), saleID, compareRequest(i)); err != nil || v.Result != flashsale.Admitted {
					b.Errorf("buyer %d: %v, %v", i, v.Result, err)
				}
			}
		})
	}
	wg.Wait()
}

// command is how the gate asks about a single buyer, as the server has seen it, with numbers for redis-benchmark to
// draw.
func (c *compared) command(b *testing.B) []string {
	c.reload(b, 10)
	c.do(b, "CONFIG", "SET", "slowlog-log-slower-than", "0")
	defer c.do(b, "CONFIG", "SET", "slowlog-log-slower-than", "10000")
	for i := range int64(2) { // the second time the script is there
		c.do(b, "SLOWLOG", "RESET")
		c.admit(b, compareRequest(i).OrderID, compareRequest(i).UserID, compareRequest(i).RequestID)
	}
	log := c.do(b, "SLOWLOG", "GET", "20")
	entries, _ := log.ToArray()
	r := compareRequest(1)
	for _, e := range entries {
		fields, _ := e.ToArray()
		words, _ := fields[3].AsStrSlice()
		if !slices.Contains(words, r.RequestID) {
			continue
		}
		return strings.Split(strings.NewReplacer(r.OrderID.String(), strconv.Itoa(orderPrefix/twelve)+"__rand_int__", r.RequestID, "bench-__rand_int__",
			"\n"+r.UserID.String()+"\n", "\n__rand_int__\n").Replace(strings.Join(words, "\n")), "\n")
	}
	b.Fatal("the server has not seen the buyer")
	return nil
}

// cost is what buyers took.
type cost struct{ perSecond, micros, cpu float64 }

// measure admits buyers to a new sale and asks the server what that took.
func (c *compared) measure(b *testing.B, command string, buyers int64, admit func()) cost {
	c.reload(b, buyers)
	c.do(b, "CONFIG", "RESETSTAT")
	cpu := func() float64 {
		return c.info(b, "cpu", `used_cpu_sys:(\S+)`) + c.info(b, "cpu", `used_cpu_user:(\S+)`)
	}
	before, start := cpu(), time.Now()
	admit()
	took := time.Since(start).Seconds()
	n := float64(buyers)
	got := cost{n / took, c.info(b, "commandstats", `cmdstat_`+strings.ToLower(command)+`:calls=\d+,usec=(\d+)`) / n, (cpu() - before) * 1e6 / n}
	// redis-benchmark draws, so that a few of its buyers come twice.
	if s, err := c.Standing(b.Context(), saleID); err != nil || s.Stock > buyers/1000 {
		b.Fatalf("%d of %d units are left: %v", s.Stock, buyers, err)
	}
	return got
}

// BenchmarkGateCompare lets b.N buyers into a sale through the gate, whose concurrent buyers share a script call, and
// through redis-benchmark, which runs the very same script for one buyer at a time, 16 in a pipeline. It does both in
// turn and reports medians: buyers per second, time in the script and CPU time of the whole server for each, and what
// the sharing gains.
//
//	go test -run '^$' -bench GateCompare -benchtime 200000x ./internal/flashsale
func BenchmarkGateCompare(b *testing.B) {
	c := openCompared(b)
	if _, err := exec.LookPath("redis-benchmark"); err != nil {
		b.Skip(err)
	}
	words, buyers := c.command(b), int64(b.N)
	host, port, _ := strings.Cut(c.addr, ":")
	alone := append([]string{"-h", host, "-p", port, "--dbnum", "2", "-P", "16", "-c", "50", "-q", "-n", strconv.FormatInt(buyers, 10), "-r", strconv.Itoa(math.MaxInt32)}, words...)
	var ours, theirs []cost
	for range compareRounds {
		ours = append(ours, c.measure(b, words[0], buyers, func() { c.admitAll(b, buyers) }))
		theirs = append(theirs, c.measure(b, words[0], buyers, func() {
			if out, err := exec.CommandContext(b.Context(), "redis-benchmark", alone...).CombinedOutput(); err != nil {
				b.Fatalf("redis-benchmark: %v\n%s", err, out)
			}
		}))
	}
	b.ReportMetric(0, "ns/op")
	for unit, of := range map[string]func(cost) float64{
		"buyers/s": func(c cost) float64 { return c.perSecond }, "script-µs/buyer": func(c cost) float64 { return c.micros },
		"redis-cpu-µs/buyer": func(c cost) float64 { return c.cpu },
	} {
		a, z := median(ours, of), median(theirs, of)
		b.ReportMetric(a, "ours:"+unit)
		b.ReportMetric(z, "alone:"+unit)
		gain := z / a
		if unit == "buyers/s" {
			gain = a / z
		}
		b.ReportMetric(gain, "gain:"+strings.TrimSuffix(unit, "/buyer"))
	}
}

func median(costs []cost, of func(cost) float64) float64 {
	var list []float64
	for _, c := range costs {
		list = append(list, of(c))
	}
	slices.Sort(list)
	return list[len(list)/2]
}

// BenchmarkGateMemory lets b.N buyers in and reports what each occupies in Redis: while his order has no row, and after.
//
//	go test -run '^$' -bench GateMemory -benchtime 1000000x ./internal/flashsale
func BenchmarkGateMemory(b *testing.B) {
	c := openCompared(b)
	buyers := int64(b.N)
	c.reload(b, buyers)
	used := func() float64 { return c.info(b, "memory", `used_memory:(\d+)`) }
	empty := used()
	c.admitAll(b, buyers)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric((used()-empty)/float64(buyers), "B/pending-buyer")
	for n := buyers; n > 0; {
		pending, err := c.Pending(b.Context(), saleID, c.Now().Add(time.Hour), 1000)
		if err == nil {
			err = c.Settle(b.Context(), saleID, pending)
		}
		if err != nil || len(pending) == 0 {
			b.Fatalf("%d buyers are left: %v", n, err)
		}
		n -= int64(len(pending))
	}
	b.ReportMetric((used()-empty)/float64(buyers), "B/settled-buyer")
}
