package main

import (
	"context"
	"fmt"
	"time"

	"tandian/test/history"
)

// The stores, by the names that scripts/services uses.
const (
	redis    = "redis"
	mariadb  = "mariadb"
	rabbitmq = "rabbitmq"
)

// lever is one way to break something for a while.
type lever struct {
	name    string
	brokers string // those with which it makes sense
	weight  int    // how often it is drawn, beside the others
	longest time.Duration

	onApp, onLine, onSale bool     // what it is pulled at: an instance, the line from one to a store, the sale
	stores                []string // one of them is drawn
	loses                 bool     // it empties a store
	harmless              bool     // it may accompany a loss

	says func(n int) string // what the drawn number means
	// pull does it and returns how to let go, nil if there is nothing to let go. Letting go is tried until it is done.
	pull func(ctx context.Context, s *scene, p pull) (letGo func(ctx context.Context) error, err error)
}

// scene is where a lever finds what it pulls at.
type scene struct {
	*town
	sale     string
	troubles []history.Trouble // guarded by mu: the times in which levers were pulled
}

// broken notes that something was broken from an instant until now.
func (s *scene) broken(from time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.troubles = append(s.troubles, history.Trouble{From: from, To: time.Now()})
}

const (
	everywhere = "sql rabbit stream"
	production = "rabbit stream"
)

var (
	allStores  = []string{redis, mariadb, rabbitmq}
	fastStores = []string{redis, mariadb} // RabbitMQ takes twenty seconds to start
)

// levers is the table of docs/reliability.md.
var levers = []lever{
	{name: "kill", brokers: everywhere, weight: 24, longest: 1500 * time.Millisecond, onApp: true, pull: killApp},
	{name: "terminate", brokers: everywhere, weight: 8, onApp: true, pull: terminateApp},
	{name: "freeze", brokers: everywhere, weight: 10, longest: 3 * time.Second, onApp: true, harmless: true, pull: freezeApp},

	{name: "freeze", brokers: production, weight: 12, longest: 3 * time.Second, stores: allStores, pull: freezeStore},
	{name: "kill", brokers: production, weight: 12, longest: time.Second, stores: fastStores, pull: killStore},
	{name: "restart", brokers: production, weight: 6, stores: fastStores, pull: restartStore},
	{name: "kill", brokers: brokerRabbit, weight: 6, longest: time.Second, stores: []string{rabbitmq}, pull: killStore},

	{name: "cut", brokers: production, weight: 8, longest: 3 * time.Second, onLine: true, stores: allStores, pull: cut},
	{name: "black hole", brokers: production, weight: 8, longest: 3 * time.Second, onLine: true, stores: allStores, pull: blackHole},
	{name: "slow", brokers: production, weight: 6, longest: 3 * time.Second, onLine: true, stores: allStores, says: milliseconds, pull: slow},
	{name: "cut replies", brokers: production, weight: 8, longest: 2 * time.Second, onLine: true, stores: allStores, says: replyBytes, pull: cutReplies},

	{name: "read-only", brokers: production, weight: 5, longest: 2 * time.Second, stores: []string{mariadb}, pull: readOnly},
	{name: "kill connections", brokers: production, weight: 6, stores: []string{mariadb}, pull: killConnections},
	{name: "lock the sale", brokers: production, weight: 5, longest: 3 * time.Second, stores: []string{mariadb}, pull: lockSale},

	{name: "flush scripts", brokers: production, weight: 4, stores: []string{redis}, harmless: true, pull: flushScripts},
	{name: "pause writes", brokers: production, weight: 4, longest: 3 * time.Second, stores: []string{redis}, pull: pauseWrites},
	{name: "fill memory", brokers: production, weight: 4, longest: 2 * time.Second, stores: []string{redis}, pull: fillMemory},
	{name: "flush all", brokers: brokerRabbit, weight: 10, stores: []string{redis}, loses: true, pull: flushAll},
	{name: "delete gate key", brokers: production, weight: 8, stores: []string{redis}, says: gateKey, loses: true, pull: deleteGateKey},
	{name: "falsify stock", brokers: production, weight: 4, stores: []string{redis}, loses: true, pull: falsifyStock},

	{name: "close connections", brokers: brokerRabbit, weight: 6, stores: []string{rabbitmq}, pull: closeConnections},
	{name: "purge", brokers: brokerRabbit, weight: 6, stores: []string{rabbitmq}, loses: true, pull: purge},
	{name: "unbind", brokers: brokerRabbit, weight: 6, stores: []string{rabbitmq}, pull: unbind},
	{name: "block publishers", brokers: brokerRabbit, weight: 4, longest: 2 * time.Second, stores: []string{rabbitmq}, pull: blockPublishers},

	{name: "top up", brokers: everywhere, weight: 6, onSale: true, harmless: true, says: units, pull: topUp},
	{name: "take back", brokers: everywhere, weight: 6, onSale: true, harmless: true, says: units, pull: takeBack},
	{name: "pause the sale", brokers: everywhere, weight: 5, longest: time.Second, onSale: true, harmless: true, pull: pauseSale},
}

func units(n int) string        { return fmt.Sprint(1 + n%40) }
func milliseconds(n int) string { return fmt.Sprintf("by %d ms", slowBy(n)) }
func replyBytes(n int) string   { return fmt.Sprintf("after %d bytes", bytesPassed(n)) }

// handle pulls at the planned instant and lets go at the planned one. It returns when the lever is let go, which is
// then the time of now.
func (s *scene) handle(ctx context.Context, began time.Time, p pull) error {
	if err := wait(ctx, time.Until(began.Add(p.at))); err != nil {
		return err
	}
	defer s.broken(time.Now())
	letGo, err := p.lever.pull(ctx, s, p)
	if err != nil {
		return fmt.Errorf("%s: %w", p, err)
	}
	if letGo == nil {
		return nil
	}
	interrupted := wait(ctx, p.for_)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
	defer cancel()
	for {
		err := letGo(ctx)
		if err == nil {
			return interrupted
		}
		if wait(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("%s: let go: %w", p, err)
		}
	}
}

// wait returns after d, or earlier with ctx's error.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
