// Command chaos sells flash sales to many buyers at once while processes die, stores freeze and come back empty and
// lines are cut, and judges after each of them what buyers were told (docs/reliability.md). It needs nothing that runs
// already: it builds the program and starts stores of its own.
//
//	go run ./test/chaos -n 100 -seed 7            a hundred cycles, shared by all brokers
//	go run ./test/chaos -broker rabbit -from 12   one cycle of them again
//
// It exits with 1 when a promise was broken and with 2 when the run itself failed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/go-sql-driver/mysql"
)

func main() {
	o := options{out: os.Stdout, payWindow: payWindow}
	broker := flag.String("broker", "all", "sql, rabbit, stream or all")
	flag.IntVar(&o.cycles, "n", 1, "cycles, in all")
	flag.IntVar(&o.from, "from", 1, "number of the first cycle of each broker")
	flag.Uint64Var(&o.seed, "seed", 0, "what is drawn depends on it alone; 0 draws one")
	flag.StringVar(&o.stores, "stores", os.Getenv("TANDIAN_CHAOS_STORES"), "folder of scripts/services in which the stores are found, or left, running")
	flag.Parse()
	hush()
	o.brokers = []string{*broker}
	if *broker == "all" {
		o.brokers = brokers
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(o.main(ctx, os.Stderr))
}

func (o *options) main(ctx context.Context, errOut io.Writer) int {
	for _, b := range o.brokers {
		if !slices.Contains(brokers, b) {
			fmt.Fprintf(errOut, "chaos: no broker %q; there are all, %s\n", b, strings.Join(brokers, ", "))
			return 2
		}
	}
	if o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000) + 1
	}
	switch err := o.run(ctx); {
	case errors.Is(err, errBroken):
		return 1
	case err != nil:
		fmt.Fprintln(errOut, "chaos:", err)
		return 2
	}
	return 0
}

// hush keeps the MySQL driver from telling of connections that we have cut ourselves.
func hush() { _ = mysql.SetLogger(log.New(io.Discard, "", 0)) }
