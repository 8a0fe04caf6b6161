package flashsale_test

import (
	"context"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tandian/internal/kit/id"
	"tandian/internal/kit/queue"
	"tandian/internal/order"
)

// BenchmarkPipeline sells with 128 buyers at a time, from the gate to the committed row, without HTTP. cpu-us/order is
// the processor time of the whole process.
func BenchmarkPipeline(b *testing.B) {
	p := newPipeline(b, 10_000_000, 1)
	ctx, cancel := context.WithCancel(b.Context())
	consumed := make(chan error, 1)
	go func() {
		consumed <- p.broker.Consume(ctx, order.TopicCreate, queue.Batch{Max: 200, Linger: 5 * time.Millisecond}, p.writer.Handle)
	}()
	var n atomic.Int64
	b.SetParallelism(64)
	before := cpu(b)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := p.Grab(b.Context(), id.ID(n.Add(1)), p.sale, "bench-key-0123456789-0123456789"); err != nil {
				b.Error(err)
			}
		}
	})
	for d, err := p.broker.Depth(b.Context(), order.TopicCreate); d.Ready+d.Unacked > 0; d, err = p.broker.Depth(b.Context(), order.TopicCreate) {
		if err != nil {
			b.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	b.StopTimer()
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-us/order")
	cancel()
	if err := <-consumed; err != nil {
		b.Fatal(err)
	}
}

// cpu is the processor time that this process has used.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkFind is what a buyer's look at his order costs without HTTP.
func BenchmarkFind(b *testing.B) {
	p := newPipeline(b, 10, 1)
	orderID := p.grab(b, 1, "key-00000001")
	p.drain(b)
	for b.Loop() {
		if _, err := p.orders.Find(b.Context(), 1, orderID); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSale is what a look at the sale page costs without HTTP.
func BenchmarkSale(b *testing.B) {
	p := newPipeline(b, 10, 1)
	for b.Loop() {
		if _, err := p.Sale(b.Context(), p.sale); err != nil {
			b.Fatal(err)
		}
	}
}
