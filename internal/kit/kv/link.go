package kv

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/rueidis"
)

const (
	linkSilence = 500 * time.Millisecond // leases of a link that says nothing for so long don't hold
	linkBeat    = 100 * time.Millisecond // between two heartbeats
	linkPause   = 100 * time.Millisecond // before it connects again
)

// errLinkLost ends a link whose connection broke between two heartbeats.
var errLinkLost = errors.New("the connection was lost")

// Link hears of changed keys from a Redis server, so that leases on them hold.
//
//	other processes ── SET, DEL, PEXPIRE … ──▶ Redis ── invalidate ──▶ ┐ one connection, one order
//	this process    ── PING each 100 ms ─────▶ Redis ── PONG ────────▶ ┘
//
// The server broadcasts the names of changed keys with the link's prefixes (CLIENT TRACKING ON BCAST), so values may be
// read by any connection and the server keeps no table of who read what. A PONG proves that all has been heard that
// changed before its PING was sent, and lets leases hold for another half second. When the connection is lost, all
// leases are broken before there is another, because nobody tells what changed in between.
//
// Of a Redis Cluster one connection hears a part only: there no lease ever holds.
type Link struct {
	option   rueidis.ClientOption
	prefixes []string
	now      func() time.Time
	onError  func(error)
	leases   *leases
}

// NewLink returns a link to the server of o. Leases hold for keys that begin with a prefix, of which none may be the
// beginning of another, and only while Run is running. onError hears why a connection was lost; it is called by Run.
func NewLink(o rueidis.ClientOption, prefixes []string, now func() time.Time, onError func(error)) *Link {
	l := &Link{option: o, prefixes: prefixes, now: now, onError: onError, leases: newLeases(now())}
	l.option.ClientTrackingOptions = []string{"BCAST"}
	for _, p := range prefixes {
		l.option.ClientTrackingOptions = append(l.option.ClientTrackingOptions, "PREFIX", p)
	}
	l.option.OnInvalidations = l.invalidate
	l.option.PipelineMultiplex = -1 // one connection
	l.option.DisableRetry = true
	l.option.Dialer.Timeout = linkSilence
	l.option.ConnWriteTimeout = linkSilence
	return l
}

// Run keeps the link up until ctx ends.
func (l *Link) Run(ctx context.Context) error {
	pause := time.NewTicker(linkPause)
	defer pause.Stop()
	for {
		if err := l.listen(ctx); ctx.Err() == nil {
			l.onError(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
		}
	}
}

// listen connects, and returns when the connection can't be relied upon any more.
func (l *Link) listen(ctx context.Context) error {
	var connected atomic.Bool
	o := l.option
	o.Dialer.Control = func(string, string, syscall.RawConn) error {
		if connected.Load() {
			return errLinkLost // the client would go on with another connection
		}
		return nil
	}
	client, err := rueidis.NewClient(o)
	if err != nil {
		return err
	}
	defer client.Close()
	defer l.leases.distrust() // first: to close a dead connection takes its time
	if client.Mode() == rueidis.ClientModeCluster {
		<-ctx.Done()
		return ctx.Err()
	}
	connected.Store(true)
	tick := time.NewTicker(linkBeat)
	defer tick.Stop()
	for {
		if err := l.beat(ctx, client); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (l *Link) beat(ctx context.Context, client rueidis.Client) error {
	ctx, cancel := context.WithTimeout(ctx, linkSilence)
	defer cancel()
	asked := l.now()
	if err := client.Do(ctx, client.B().Ping().Build()).Error(); err != nil {
		return err
	}
	l.leases.trust(asked.Add(linkSilence))
	return nil
}

// invalidate hears which keys have changed; nil = all of them may have.
func (l *Link) invalidate(keys []rueidis.RedisMessage) {
	if keys == nil {
		l.leases.allBroken()
	}
	for i := range keys {
		if key, err := keys[i].ToString(); err == nil {
			l.leases.broken(key)
		}
	}
}

// watches reports whether the server tells of changes to the key.
func (l *Link) watches(key string) bool {
	return slices.ContainsFunc(l.prefixes, func(p string) bool { return strings.HasPrefix(key, p) })
}

// lease returns a lease, the zero Lease without a link.
func (l *Link) lease(key string) Lease {
	if l == nil || !l.watches(key) {
		return Lease{}
	}
	return l.leases.take(key, l.now())
}

// changed says that this process has changed the key, or may have. The server will say so, too, but later.
func (l *Link) changed(keys ...string) {
	if l == nil {
		return
	}
	for _, key := range keys {
		if l.watches(key) {
			l.leases.broken(key)
		}
	}
}
