package bench

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// Options say what to load, how hard, and what to expect. The tags are read by
// the command line; a zero value gets the same defaults from withDefaults.
type Options struct {
	URL      string        `name:"url" placeholder:"URL" help:"Server to load. Without it a server of our own is started, as with --self."`
	Self     bool          `help:"Start the server as a child on a temporary folder and read its database directly."`
	Users    int           `default:"5000" help:"Buyers; each tries at least once."`
	Stock    int           `default:"500" help:"Units on sale; for drain: orders to queue."`
	Limit    int           `default:"1" help:"Units one user may own; each user tries that often."`
	Clients  int           `default:"64" help:"Connections; without --rate each sends its next request when the last is answered."`
	Rate     float64       `placeholder:"R" help:"Arrivals per second (open loop; latency counts from the intended start)."`
	Duration time.Duration `default:"60s" help:"Upper bound of the load; the time reads take in all."`
	Broker   string        `default:"" enum:",sql,rabbit,stream" help:"Queue of the server started here: sql, rabbit or stream."`
	Expect   string        `placeholder:"LIST" help:"Thresholds, such as 'p99<80ms,errors<0.1%,oversell=0,dup=0'."`
	Kill     int           `help:"Kill the server started here that many times in mid-sale; it is restarted on its folder."`
	Seed     uint64        `help:"Seed of the plan (who comes when and who comes twice); 0 draws one."`
	JSON     bool          `name:"json" help:"Print the report as JSON."`
	Out      string        `placeholder:"DIR" help:"Write report.json, report.html and plot.svg there."`
	Lang     string        `default:"zh" enum:"zh,en" help:"Language of the report: zh or en."`

	LimitGlobal int `name:"limit-global" default:"1000000" help:"Requests per second the server started here lets through."`
	LimitIP     int `name:"limit-ip" default:"1000000" help:"The same per address."`
	LimitUser   int `name:"limit-user" default:"1000" help:"The same per user."`

	OperatorPhone    string        `default:"13800000001" help:"An operator's account; makes the sale."`
	OperatorPassword string        `default:"tandian-demo" help:"Its password."`
	RestTimeout      time.Duration `default:"60s" help:"How long the queue may take to come to rest."`
	TimeSlice        time.Duration `default:"600ms" hidden:"" help:"Length of a slice of GET /time."`

	Exe    string    `kong:"-"` // program to start for Self; default os.Executable()
	Env    []string  `kong:"-"` // added to the inherited environment of the child
	Commit string    `kong:"-"` // revision printed in the report
	Stdout io.Writer `kong:"-"`
	Stderr io.Writer `kong:"-"`
}

// Bounds of what may be asked for, so that a slip of the keyboard stays harmless.
const (
	maxUsers    = 1_000_000
	maxClients  = 4096
	maxLimit    = 63 // the server keeps a user's slots in one bitmask
	maxDuration = time.Hour
)

func (o Options) withDefaults() Options {
	o.Users = orDefault(o.Users, 5000)
	o.Stock = orDefault(o.Stock, 500)
	o.Limit = orDefault(o.Limit, 1)
	o.Clients = orDefault(o.Clients, 64)
	o.Duration = orDefault(o.Duration, time.Minute)
	o.RestTimeout = orDefault(o.RestTimeout, time.Minute)
	o.TimeSlice = orDefault(o.TimeSlice, 600*time.Millisecond)
	o.Lang = orDefault(o.Lang, "zh")
	o.LimitGlobal = orDefault(o.LimitGlobal, 1_000_000)
	o.LimitIP = orDefault(o.LimitIP, 1_000_000)
	o.LimitUser = orDefault(o.LimitUser, 1000)
	o.OperatorPhone = orDefault(o.OperatorPhone, "13800000001")
	o.OperatorPassword = orDefault(o.OperatorPassword, "tandian-demo")
	o.Seed = orDefault(o.Seed, uint64(time.Now().UnixNano())%1_000_000)
	o.Self = o.Self || o.URL == ""
	if o.Stdout == nil {
		o.Stdout = io.Discard
	}
	if o.Stderr == nil {
		o.Stderr = io.Discard
	}
	return o
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// prepare fills in defaults and refuses what cannot be run.
func (o Options) prepare() (Options, []Threshold, error) {
	o = o.withDefaults()
	for _, b := range []struct {
		name     string
		v, limit int
	}{{"users", o.Users, maxUsers}, {"stock", o.Stock, maxUsers}, {"clients", o.Clients, maxClients}, {"limit", o.Limit, maxLimit}} {
		if b.v < 1 || b.v > b.limit {
			return o, nil, fmt.Errorf("--%s must be 1 to %d, not %d", b.name, b.limit, b.v)
		}
	}
	switch {
	case o.Duration < 0 || o.Duration > maxDuration:
		return o, nil, fmt.Errorf("--duration must be at most %v", maxDuration)
	case o.Rate < 0 || o.Rate > 1e6:
		return o, nil, fmt.Errorf("--rate must be 0 to 1000000")
	case o.URL != "" && o.Self:
		return o, nil, fmt.Errorf("--url and --self exclude each other")
	case o.Kill < 0 || o.Kill > maxRestarts || o.Kill > 0 && !o.Self:
		return o, nil, fmt.Errorf("--kill needs --self and is at most %d", maxRestarts)
	}
	if o.URL != "" {
		if u, err := url.Parse(o.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return o, nil, fmt.Errorf("--url must be an http or https address, not %q", o.URL)
		}
	}
	if o.Self && o.Exe == "" {
		exe, err := os.Executable()
		if err != nil {
			return o, nil, fmt.Errorf("find the program to start: %w", err)
		}
		o.Exe = exe
	}
	thresholds, err := ParseExpect(o.Expect)
	return o, thresholds, err
}

// commandLine is a command that repeats the run, seed included.
func (o Options) commandLine(mode string) string {
	args := []string{"tandian", "bench", mode}
	if o.Self {
		args = append(args, "--self")
	} else {
		args = append(args, "--url", o.URL)
	}
	add := func(name, v string, set bool) {
		if set {
			args = append(args, name, v)
		}
	}
	add("--users", strconv.Itoa(o.Users), mode != "read" && mode != "drain")
	add("--stock", strconv.Itoa(o.Stock), mode != "read")
	add("--limit", strconv.Itoa(o.Limit), mode != "read" && o.Limit > 1)
	add("--clients", strconv.Itoa(o.Clients), true)
	add("--rate", strconv.FormatFloat(o.Rate, 'f', -1, 64), o.Rate > 0)
	add("--duration", o.Duration.String(), true)
	add("--broker", o.Broker, o.Broker != "")
	add("--limit-global", strconv.Itoa(o.LimitGlobal), o.Self && o.LimitGlobal != 1_000_000)
	add("--limit-ip", strconv.Itoa(o.LimitIP), o.Self && o.LimitIP != 1_000_000)
	add("--limit-user", strconv.Itoa(o.LimitUser), o.Self && o.LimitUser != 1000)
	add("--kill", strconv.Itoa(o.Kill), o.Kill > 0)
	add("--seed", strconv.FormatUint(o.Seed, 10), true)
	add("--expect", "'"+o.Expect+"'", o.Expect != "")
	return strings.Join(args, " ")
}
