package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/rueidis"

	"tandian/internal/kit/queue/rabbit"
	"tandian/internal/order"
)

// readOnly refuses writes as a MariaDB does that has become a replica.
func readOnly(ctx context.Context, s *scene, _ pull) (letGo, error) {
	set := func(ctx context.Context, on int) error {
		_, err := s.root.ExecContext(ctx, fmt.Sprintf("SET GLOBAL read_only = %d", on))
		return err
	}
	return func(ctx context.Context) error { return set(ctx, 0) }, set(ctx, 1)
}

// killConnections ends all connections of the instances, whatever they are doing.
func killConnections(ctx context.Context, s *scene, _ pull) (letGo, error) {
	_, err := s.root.ExecContext(ctx, "KILL USER '"+s.sqlUser+"'")
	return nil, err
}

// lockSale holds the sale's row, as somebody with a forgotten transaction does.
func lockSale(ctx context.Context, s *scene, _ pull) (letGo, error) {
	tx, err := s.root.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return nil, err
	}
	var saleID string
	err = tx.QueryRowContext(ctx, "SELECT id FROM "+s.database+".sale WHERE id = ? FOR UPDATE", s.sale).Scan(&saleID)
	if err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return func(context.Context) error { return tx.Rollback() }, nil
}

// command gives Redis one.
func (w *town) command(ctx context.Context, words ...string) rueidis.RedisResult {
	return w.client.Do(ctx, w.client.B().Arbitrary(words...).Build())
}

func flushScripts(ctx context.Context, s *scene, _ pull) (letGo, error) {
	return nil, s.command(ctx, "SCRIPT", "FLUSH").Error()
}

func pauseWrites(ctx context.Context, s *scene, p pull) (letGo, error) {
	err := s.command(ctx, "CLIENT", "PAUSE", fmt.Sprint(p.for_.Milliseconds()), "WRITE").Error()
	return func(context.Context) error { return s.command(ctx, "CLIENT", "UNPAUSE").Error() }, err
}

// fillMemory leaves no room for what is written.
func fillMemory(ctx context.Context, s *scene, _ pull) (letGo, error) {
	set := func(ctx context.Context, size string) error {
		return s.command(ctx, "CONFIG", "SET", "maxmemory", size).Error()
	}
	return func(ctx context.Context) error { return set(ctx, "0") }, set(ctx, "1mb")
}

// flushAll empties Redis. Whoever was signed in signs in again, which is done here by putting the sessions back.
func flushAll(ctx context.Context, s *scene, _ pull) (letGo, error) {
	keys, err := s.command(ctx, "KEYS", "login:*").AsStrSlice()
	if err != nil {
		return nil, err
	}
	dumps := map[string]string{}
	for _, key := range keys {
		dump, err := s.command(ctx, "DUMP", key).ToString()
		if rueidis.IsRedisNil(err) {
			continue // it has ended meanwhile
		}
		if err != nil {
			return nil, err
		}
		dumps[key] = dump
	}
	if err := s.command(ctx, "FLUSHALL").Error(); err != nil {
		return nil, err
	}
	for key, dump := range dumps {
		if err := s.command(ctx, "RESTORE", key, "86400000", dump, "REPLACE").Error(); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

var gateKeys = []string{"meta", "stock", "buyers", "orders", "requests", "pending", "ended"}

func gateKey(n int) string { return gateKeys[n%len(gateKeys)] }

func (s *scene) key(name string) string { return "{sale:" + s.sale + "}:" + name }

func deleteGateKey(ctx context.Context, s *scene, p pull) (letGo, error) {
	return nil, s.command(ctx, "DEL", s.key(gateKey(p.n))).Error()
}

// falsifyStock lets the gate believe in units that nobody has released.
func falsifyStock(ctx context.Context, s *scene, _ pull) (letGo, error) {
	return nil, s.command(ctx, "SET", s.key("stock"), "9999").Error()
}

func closeConnections(ctx context.Context, s *scene, _ pull) (letGo, error) {
	return nil, s.stores.do(ctx, "ctl", "close_all_connections", "chaos")
}

// channel runs fn on a connection of our own to RabbitMQ.
func (w *town) channel(fn func(ch *amqp.Channel) error) error {
	conn, err := amqp.Dial(w.stores.rabbit)
	if err != nil {
		return err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	return fn(ch)
}

// createRoute is where reservations travel.
func createRoute() rabbit.Route {
	for _, r := range rabbit.Orders().Routes {
		if r.Topic == order.TopicCreate {
			return r
		}
	}
	panic("no route of " + order.TopicCreate)
}

// purge throws away what waits to be written.
func purge(_ context.Context, s *scene, _ pull) (letGo, error) {
	return nil, s.channel(func(ch *amqp.Channel) error {
		_, err := ch.QueuePurge(createRoute().Queue, false)
		return err
	})
}

// unbind has messages come back, until somebody notices and binds the queue again.
func unbind(_ context.Context, s *scene, _ pull) (letGo, error) {
	return nil, s.channel(func(ch *amqp.Channel) error {
		r := createRoute()
		return ch.QueueUnbind(r.Queue, r.Key, r.Exchange, nil)
	})
}

// blockPublishers is the memory alarm: RabbitMQ reads nothing more from who publishes.
func blockPublishers(ctx context.Context, s *scene, _ pull) (letGo, error) {
	set := func(ctx context.Context, words string) error {
		return s.stores.do(ctx, append([]string{"ctl", "set_vm_memory_high_watermark"}, strings.Fields(words)...)...)
	}
	return func(ctx context.Context) error { return set(ctx, "absolute 1GB") }, set(ctx, "0.00000001")
}
