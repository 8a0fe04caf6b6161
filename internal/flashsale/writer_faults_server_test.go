package flashsale_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"tandian/internal/kit/id"
	"tandian/internal/kit/queue"
	"tandian/internal/kit/store/storetest"
	"tandian/internal/order"
)

// F26: the database is restarted, frozen, read-only, out of connections, out of disk. Consuming pauses, no message is
// given up or has an attempt counted, the orders stay queued, and all are written when the trouble is over.
func TestWriterOutlivesItsDatabasesTroubles(t *testing.T) {
	server := storetest.Private(t)
	for name, test := range map[string]func(*testing.T, *storetest.Server){
		"mysql/killed":               testKilled,
		"mysql/frozen":               testFrozen,
		"mysql/read-only":            testReadOnly,
		"mysql/too many connections": testTooManyConnections,
		"mysql/disk full":            testDiskFull,
		"mysql/small packets":        testSmallPackets,
	} {
		t.Run(name, func(t *testing.T) { test(t, server) })
	}
}

const faultStock = 1000

// through sells before, n in, and after a trouble that makes the writer pause for the given reason at least three times.
func (p *faultyPath) through(t *testing.T, n int, reason string, begin, end func()) {
	t.Helper()
	_, stop := p.work(t, p.writer.Handle)
	p.buy(t, 5)
	p.allWritten(t)
	begin()
	p.buy(t, n)
	p.pauses(t, 3, reason)
	p.noneParked(t)
	end()
	p.buy(t, 5)
	p.allWritten(t)
	stop()
	p.atRest(t, faultStock)
}

func testKilled(t *testing.T, server *storetest.Server) {
	p := newFaultyPath(t, faultStock, nil)
	p.through(t, 20, "", func() {
		p.leaseIDs(t)
		server.Do(t, "kill", "mariadb")
	}, func() {
		if _, err := p.orders.Find(t.Context(), 6, p.bought[5]); !errors.Is(err, order.ErrUnknown) {
			t.Errorf("S7: without the database nobody knows what became of an id: %v", err)
		}
		server.Do(t, "restart", "mariadb")
	})
}

// The writer hangs up on a server that says nothing. What it had sent may be carried out when the server thaws.
func testFrozen(t *testing.T, server *storetest.Server) {
	p := newFaultyPath(t, faultStock, func(cfg *mysql.Config) { cfg.ReadTimeout = 200 * time.Millisecond })
	p.through(t, 20, "", func() {
		p.leaseIDs(t)
		server.Do(t, "pause", "mariadb")
	}, func() {
		server.Do(t, "resume", "mariadb")
	})
}

// leaseIDs makes ids for a sale without a database.
func (p *faultyPath) leaseIDs(t *testing.T) {
	t.Helper()
	p.IDs = &id.Sequence{Lease: p.db.LeaseIDs("order"), Now: p.Now, Size: faultStock}
	if _, err := p.IDs.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// asShop connects with no rights beyond the program's: an administrator is exempt from these limits.
func asShop(cfg *mysql.Config) { cfg.User, cfg.Passwd = "shop", "shop" }

func newShopPath(t *testing.T, admin *sql.DB) *faultyPath {
	t.Helper()
	if _, err := admin.Exec("GRANT SELECT, INSERT, UPDATE, DELETE ON *.* TO shop@'127.0.0.1' IDENTIFIED BY 'shop'"); err != nil {
		t.Fatal(err)
	}
	return newFaultyPath(t, faultStock, asShop)
}

// setGlobal sets a variable of the server until the test ends.
func setGlobal(t *testing.T, admin *sql.DB, name string, value int) {
	t.Helper()
	var before int
	if err := admin.QueryRow("SELECT @@global." + name).Scan(&before); err != nil {
		t.Fatal(err)
	}
	set := func(value int) {
		if _, err := admin.Exec(fmt.Sprintf("SET GLOBAL %s = %d", name, value)); err != nil {
			t.Error(err)
		}
	}
	set(value)
	t.Cleanup(func() { set(before) })
}

func testReadOnly(t *testing.T, server *storetest.Server) {
	admin := server.Admin(t)
	p := newShopPath(t, admin)
	p.through(t, 20, "Error 1290", func() {
		setGlobal(t, admin, "read_only", 1)
	}, func() {
		p.queued(t, 5)
		setGlobal(t, admin, "read_only", 0)
	})
}

func testTooManyConnections(t *testing.T, server *storetest.Server) {
	admin := server.Admin(t)
	p := newShopPath(t, admin)
	cfg, err := mysql.ParseDSN(server.DSN)
	if err != nil {
		t.Fatal(err)
	}
	asShop(cfg)
	others, err := sql.Open("mysql", cfg.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer others.Close()
	var taken []*sql.Conn
	p.through(t, 20, "Error 1040", func() {
		const fewest = 10 // that MariaDB allows
		setGlobal(t, admin, "max_connections", fewest)
		p.faulty.Cut()
		for left := 1; left > 0; { // until the server has noticed
			if err := admin.QueryRow("SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'shop'").Scan(&left); err != nil {
				t.Fatal(err)
			}
		}
		for err = nil; err == nil; {
			var conn *sql.Conn
			if conn, err = others.Conn(t.Context()); err == nil {
				taken = append(taken, conn)
			}
		}
		if full := (*mysql.MySQLError)(nil); !errors.As(err, &full) || full.Number != 1040 {
			t.Fatal("there is room left", err)
		}
	}, func() {
		p.queued(t, 5)
		for _, conn := range taken {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // is thrown away
		}
	})
}

// The orders' table is made anew on a small disk, which something else then fills.
func testDiskFull(t *testing.T, server *storetest.Server) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small disk")
	}
	p := newFaultyPath(t, faultStock, nil)
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=16m,mode=777"); err != nil {
		t.Fatal(err)
	}
	drop := func() error {
		_, err := p.db.Write.ExecContext(context.WithoutCancel(t.Context()), "DROP TABLE orders")
		return err
	}
	t.Cleanup(func() {
		if err := errors.Join(drop(), syscall.Unmount(disk, 0)); err != nil {
			t.Error(err)
		}
	})
	var name, create string
	if err := p.db.Write.QueryRow("SHOW CREATE TABLE orders").Scan(&name, &create); err != nil {
		t.Fatal(err)
	}
	if err := drop(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.db.Write.DB.Exec(create + " DATA DIRECTORY = '" + disk + "'"); err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(disk, "filler")
	p.through(t, 300, "is full", func() {
		if err := os.WriteFile(filler, make([]byte, 16<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
			t.Fatal("there is room left", err)
		}
	}, func() {
		p.someQueued(t)
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
	})
}

// The largest batch doesn't need a large packet.
func testSmallPackets(t *testing.T, server *storetest.Server) {
	setGlobal(t, server.Admin(t), "max_allowed_packet", 256<<10)
	const orders = 1999 // a batch of 999 and a message of 1000
	p := newFaultyPath(t, orders, nil)
	now := p.Now().UnixMilli()
	rs := make([]order.Reservation, orders)
	for i := range rs {
		rs[i] = order.Reservation{OrderID: id.ID(1<<60 + i), SaleID: p.sale, VoucherID: 7, UserID: id.ID(1<<60 + i), Amount: 4750, RequestID: strings.Repeat("x", order.MaxRequestID),
			AdmittedAt: now, PayBefore: now}
	}
	body, err := order.Encode(rs)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if v := p.writer.Handle(ctx, []queue.Message{{ID: "m", Body: body}}); v[0] != queue.Ack() {
		t.Fatalf("%+v", v)
	}
	p.want(t, 0, 0, 0, orders)
}

// someQueued checks that some orders wait and the others, for which there was room, are written.
func (p *faultyPath) someQueued(t *testing.T) {
	t.Helper()
	n := map[order.Status]int{}
	for i, orderID := range p.bought {
		st, _ := p.status(t, id.ID(i+1), orderID)
		n[st]++
	}
	if n[order.Queued] == 0 || n[order.Queued]+n[order.Unpaid] != len(p.bought) {
		t.Fatal(n)
	}
}

// F26 on the embedded store.
func TestWriterOutlivesAFullDisk(t *testing.T) {
	p := newFaultyPath(t, faultStock, nil)
	pages := func(limit string) {
		if _, err := p.db.Write.Exec("PRAGMA max_page_count = " + limit); err != nil {
			t.Fatal(err)
		}
	}
	p.through(t, 300, "disk is full", func() {
		pages("1") // which means: as many as there are
	}, func() {
		p.someQueued(t)
		pages("1073741823")
	})
}
