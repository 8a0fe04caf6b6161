package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"tandian/internal/kit/queue"
	"tandian/internal/kit/supervise"
)

const (
	deadLetterTimeout = 10 * time.Second
	buryPause         = 5 * time.Second        // before a dead letter that could not be kept is delivered again
	settleTimeout     = 10 * time.Second       // for as long verdicts are told to a server that doesn't answer
	settlePause       = 200 * time.Millisecond // between the tries
	settleAtOnce      = 500                    // verdicts in one script
)

// work hands a batch to the handler and carries out its verdicts; what must travel alone does so. All of it is kept this
// consumer's meanwhile, however long it takes.
func (c *consumer) work(ctx context.Context, batch []*delivery, handle func(context.Context, []queue.Message) []queue.Verdict) {
	done := make(chan struct{})
	var renewing sync.WaitGroup
	renewing.Go(func() { c.renew(ctx, batch, done) })
	defer renewing.Wait()
	defer close(done)

	var company []*delivery
	for _, d := range batch {
		switch {
		case d.invalid != nil:
			c.settle(ctx, []*delivery{d}, []queue.Verdict{queue.Dead(d.invalid)})
		case !d.alone():
			company = append(company, d)
		}
	}
	c.deliver(ctx, company, handle)
	for _, d := range batch {
		if d.invalid == nil && d.alone() {
			c.deliver(ctx, []*delivery{d}, handle)
		}
	}
}

func (c *consumer) deliver(ctx context.Context, batch []*delivery, handle func(context.Context, []queue.Message) []queue.Verdict) {
	if len(batch) == 0 {
		return
	}
	messages := make([]queue.Message, len(batch))
	for i, d := range batch {
		messages[i] = d.message
	}
	c.settle(ctx, batch, handle(ctx, messages))
}

// renew shows signs of life until done. Without them the entries would go to others after ClaimAfter, and each time
// count as delivered.
func (c *consumer) renew(ctx context.Context, batch []*delivery, done <-chan struct{}) {
	tick := time.NewTicker(c.ClaimAfter / 3)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), scriptTimeout)
		for key, part := range byStream(batch) {
			args := []string{group, c.name}
			for _, d := range part {
				args = append(args, d.entry)
			}
			// If it fails the worst that comes is a second delivery.
			_ = renewScript.Exec(ctx, c.Client, []string{key}, args).Error()
		}
		cancel()
	}
}

func byStream(batch []*delivery) map[string][]*delivery {
	parts := map[string][]*delivery{}
	for _, d := range batch {
		parts[d.stream] = append(parts[d.stream], d)
	}
	return parts
}

// settle carries out verdicts, also when the consumer is being stopped.
func (c *consumer) settle(ctx context.Context, batch []*delivery, verdicts []queue.Verdict) {
	orders := map[string][][]string{} // by stream: what settle.lua is to do, an entry each
	tell := func(i int, order ...string) { orders[batch[i].stream] = append(orders[batch[i].stream], order) }
	delay := func(i int, pause time.Duration, attempts int) {
		m := batch[i].message
		tell(i, "delay", batch[i].entry, strconv.FormatInt(pause.Milliseconds(), 10), m.ID, string(m.Body), strconv.Itoa(attempts),
			strconv.FormatInt(m.At.UnixMilli(), 10))
		c.lookWithin(pause)
	}
	queue.Sort(len(batch), verdicts, queue.Cases{
		Ack:   func(i int) { tell(i, "ack", batch[i].entry) },
		Retry: func(i int, after time.Duration) { delay(i, after, batch[i].message.Attempts+1) },
		Dead: func(i int, reason error) {
			if err := c.bury(ctx, batch[i].message, reason); err != nil {
				c.Log.ErrorContext(ctx, "a dead letter could not be kept and stays in the queue", "topic", c.topic, "message", batch[i].message.ID, "reason", reason, "err", err)
				delay(i, buryPause, batch[i].message.Attempts)
				return
			}
			tell(i, "ack", batch[i].entry)
		},
		Requeue: func(i int) {
			tell(i, "requeue", batch[i].entry)
			c.requeued = true
			c.ring(batch[i].stream)
		},
	})
	for key, list := range orders {
		for part := range slices.Chunk(list, settleAtOnce) {
			c.complain(ctx, key, c.tell(ctx, key, part))
		}
	}
}

// tell has Redis carry out orders, and tries for a while if it doesn't answer. Telling them twice does nothing. What was
// not told is pending under this consumer's name, and comes again.
func (c *consumer) tell(ctx context.Context, key string, orders [][]string) error {
	args := append([]string{group, c.name, strconv.FormatInt(c.ClaimAfter.Milliseconds(), 10)}, slices.Concat(orders...)...)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	for {
		try, done := context.WithTimeout(ctx, scriptTimeout)
		err := settleScript.Exec(try, c.Client, withDelayed(key), args).Error()
		done()
		_, answered := rueidis.IsRedisErr(err)
		if err == nil || answered || errors.Is(err, rueidis.ErrClosing) || !supervise.Sleep(ctx, settlePause) {
			return err
		}
	}
}

func (c *consumer) bury(ctx context.Context, m queue.Message, reason error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deadLetterTimeout)
	defer cancel()
	return c.DeadLetter(ctx, c.topic, m, cmp.Or(reason, errors.New("no reason given")))
}

// leave gives back what this consumer still has and takes it out of the groups.
func (c *consumer) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), scriptTimeout)
	defer cancel()
	args := []string{group, c.name, strconv.FormatInt(c.ClaimAfter.Milliseconds(), 10), fmt.Sprint(page)}
	each(c.streams, func(key string) error { return leaveScript.Exec(ctx, c.Client, []string{key}, args).Error() })
}
