package app

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"tandian/internal/flashsale"
	"tandian/internal/kit/queue"
	"tandian/internal/kit/supervise"
	"tandian/internal/order"
)

// workers lists every background worker but the admin listener, in the order of its start. They stop in the reverse
// order, each waited for: the public listener, then the intake, then the writers, then what only follows up.
func (a *App) workers() []supervise.Worker {
	b := a.backend
	list := b.workers
	add := func(name string, run func(ctx context.Context) error) {
		list = append(list, supervise.Worker{Name: name, Run: run})
	}
	every := func(name string, interval time.Duration, wake <-chan struct{}, turn func(context.Context) error) {
		add(name, func(ctx context.Context) error { return supervise.Every(ctx, interval, wake, turn, a.report(name)) })
	}
	consume := func(name, topic string, batch queue.Batch, handle func(context.Context, []queue.Message) []queue.Verdict) {
		add(name, func(ctx context.Context) error { return b.broker.Consume(ctx, topic, batch, handle) })
	}

	releaser := &order.Releaser{DB: b.db, Seats: a.sales}
	every("releaser", time.Second, a.released, releaser.Turn)
	forwarder := &order.Forwarder{DB: b.db, Broker: b.broker}
	every("outbox forwarder", time.Second, nil, forwarder.Turn)
	every("payment notices", time.Second, nil, a.payments.ApplyWaiting)
	every("refunds", time.Second, a.payments.RefundsAsked(), a.payments.SendRefunds)
	every("forgotten payments", 30*time.Second, nil, a.payments.CloseForgotten)
	every("ended payments", time.Minute, nil, a.payments.AskEnded)
	if a.sandbox != nil {
		every("sandbox callbacks", 500*time.Millisecond, a.sandbox.CallsDue(), a.sandbox.Call)
	}
	every("dead letters", time.Second, nil, a.letters.Turn)
	if a.cfg.ReconcileEvery > 0 {
		every("reconciler", a.cfg.ReconcileEvery, nil, a.compare.Turn)
	}
	every("closer", order.CloseEvery, nil, a.closer.Turn)
	expirer := &order.Expirer{DB: b.db, Payments: a.payments, Now: a.clock.now, Log: a.log}
	every("expirer", time.Minute, nil, expirer.Turn)
	consume("checker", order.TopicCheck, queue.Batch{Max: 16}, a.letters.Watched(order.TopicCheck, a.checker.Handle))
	consume("notifier", order.TopicCreated, queue.Batch{Max: 16}, a.letters.Watched(order.TopicCreated, a.notifier.Handle))
	for i := range a.cfg.Writers {
		consume(fmt.Sprintf("writer %d", i+1), order.TopicCreate, queue.Batch{Max: a.cfg.WriterBatch, Linger: a.cfg.WriterLinger}, a.writer.Handle)
	}
	if b.handsOver {
		add("hand-over", a.handover.Run)
	}
	every("sweeper", time.Second, nil, flashsale.NewSweeper(a.sales).Turn)
	every("order watch", 500*time.Millisecond, nil, a.orders.Watch.Turn)
	every("nearby index", time.Minute, nil, a.shops.RefreshNearby)
	if a.town != nil {
		every("demo town", 10*time.Second, nil, a.town.KeepFresh)
	}
	// Requests under way get a part of the time only: what comes after the listener needs the rest.
	add("public listener", func(ctx context.Context) error {
		return a.serve(ctx, a.public, a.handler, 30*time.Second, a.cfg.ShutdownTimeout/3)
	})
	return list
}

// adminListener is the first to start and the last to stop: it tells how the others do.
func (a *App) adminListener() supervise.Worker {
	return supervise.Worker{Name: "admin listener", Run: func(ctx context.Context) error {
		return a.serve(ctx, a.admin, a.adminHandler(), 2*time.Minute, time.Second)
	}}
}

// serve answers on a listener until ctx ends, and then lets the requests under way finish, for at most grace.
func (a *App) serve(ctx context.Context, l net.Listener, h http.Handler, writeTimeout, grace time.Duration) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: writeTimeout,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err := srv.Shutdown(ctx)
	if err != nil {
		a.log.Warn("requests cut off", "listener", l.Addr().String(), "after", grace.String())
		err = srv.Close()
	}
	<-ended
	return err
}
