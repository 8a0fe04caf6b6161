package storetest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"

	"tandian/internal/kit/store"
)

// Fate is what becomes of a statement.
type Fate int

const (
	Pass        Fate = iota
	LoseRequest      // the connection breaks before the server hears of the statement
	LoseReply        // the server carries the statement out, and the connection breaks before anybody hears of that
)

// Faulty is a MySQL database behind a proxy that breaks connections on request.
type Faulty struct {
	*store.DB
	proxy *proxy
}

// Behind opens the database of db, which is MySQL's, once more and behind a proxy. edit may change how; nil doesn't.
func Behind(t testing.TB, db *store.DB, edit func(*mysql.Config)) *Faulty {
	t.Helper()
	cfg, err := mysql.ParseDSN(os.Getenv("TANDIAN_MYSQL_DSN"))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Read.QueryRowContext(t.Context(), "SELECT DATABASE()").Scan(&cfg.DBName); err != nil {
		t.Fatal(err)
	}
	f := &Faulty{proxy: newProxy(t, cfg.Addr)}
	cfg.Addr = f.proxy.listener.Addr().String()
	if edit != nil {
		edit(cfg)
	}
	if f.DB, err = store.OpenMySQL(t.Context(), cfg.FormatDSN(), store.Pool{MaxOpen: 4, MaxIdle: 4}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.DB.Close() })
	return f
}

// OnStatement sets what is asked about each statement, with the server's id of the connection; nil ends it. The
// statement is its beginning at least.
func (f *Faulty) OnStatement(fault func(connection uint32, statement string) Fate) {
	if fault == nil {
		f.proxy.fault.Store(nil)
		return
	}
	f.proxy.fault.Store(&fault)
}

// Cut breaks all connections.
func (f *Faulty) Cut() { f.proxy.cut() }

type proxy struct {
	upstream string
	listener net.Listener
	fault    atomic.Pointer[func(uint32, string) Fate]
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{} // both sides of all links; guarded by mu
}

func newProxy(t testing.TB, upstream string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{upstream: upstream, listener: l, conns: map[net.Conn]struct{}{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				panic(err)
			}
			return
		}
		p.wg.Go(func() { p.serve(client) })
	}
}

// serve relays one connection until either side, or a fault, ends it.
func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.upstream)
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	p.conns[client], p.conns[server] = struct{}{}, struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, client)
		delete(p.conns, server)
	}()

	var id atomic.Uint32
	var mute atomic.Bool
	replies := make(chan struct{})
	go func() {
		defer close(replies)
		defer client.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			if err != nil || mute.Load() {
				return
			}
			if id.Load() == 0 {
				id.Store(connectionID(buf[:n]))
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	defer func() { <-replies }()
	defer server.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		switch p.fateOf(id.Load(), buf[:n]) {
		case LoseRequest:
			return
		case LoseReply:
			mute.Store(true)
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
		if mute.Load() {
			<-replies // it has come
			return
		}
	}
}

// fateOf asks about what the client has written: the beginning of a packet, for the client waits for each reply.
func (p *proxy) fateOf(connection uint32, b []byte) Fate {
	const sequence, command, text, query = 3, 4, 5, 0x03
	fault := p.fault.Load()
	if fault == nil || len(b) <= text || b[sequence] != 0 || b[command] != query {
		return Pass
	}
	return (*fault)(connection, string(b[text:]))
}

// connectionID reads the server's greeting: a header, the protocol's version, the server's up to a zero, the id.
func connectionID(greeting []byte) uint32 {
	const version = 5
	if len(greeting) < version {
		return 0
	}
	end := bytes.IndexByte(greeting[version:], 0)
	if end < 0 || len(greeting) < version+end+5 {
		return 0
	}
	return binary.LittleEndian.Uint32(greeting[version+end+1:])
}
