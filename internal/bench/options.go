package bench

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// Options say what to load, how hard, and what to expect. The command line reads the tags; a caller may leave fields
// zero and gets the same defaults.
type Options struct {
	URL       string        `name:"url" placeholder:"URL" help:"Server to load. Without it a server of our own is started, as with --self."`
	Self      bool          `help:"Start the server as a child and read its database directly: embedded on a temporary folder, or in production mode when TANDIAN_MYSQL_DSN, TANDIAN_REDIS_ADDR and TANDIAN_RABBITMQ_URL are set. Then a database <name>_bench is made and dropped again, and Redis and the queues must be empty (see --wipe)."`
	Users     int           `default:"5000" help:"Buyers; each tries at least once."`
	Stock     int           `default:"500" help:"Units on sale; for drain: orders to queue."`
	Limit     int           `default:"1" help:"Units one user may own; each user tries that often."`
	Clients   int           `default:"64" help:"Connections; without --rate each sends its next request when the last is answered."`
	Rate      float64       `placeholder:"R" help:"Arrivals per second (open loop; latency counts from the intended start)."`
	Duration  time.Duration `default:"60s" help:"Upper bound of the load; the time reads take in all."`
	Instances int           `default:"1" help:"Servers to start on the same stores; the load is spread over them. More than one needs the production mode."`
	Delayed   int           `help:"Messages to leave waiting in a delay queue of RabbitMQ meanwhile."`
	Broker    string        `default:"" enum:",sql,rabbit,stream" help:"Queue of the server started here: sql (embedded, whatever stores the environment names), rabbit or stream (production)."`
	Expect    string        `placeholder:"LIST" help:"Thresholds, such as 'p99<80ms,errors<0.1%,oversell=0,dup=0'."`
	Kill      int           `help:"Kill the server started here (with --instances, one after the other) that many times in mid-sale; it is restarted."`
	Wipe      bool          `help:"Empty Redis and the queues before and after a run in production mode, whatever they hold. Those started by scripts/services are emptied in any case."`
	Seed      uint64        `help:"Seed of the plan (who comes when and who comes twice); 0 draws one."`
	JSON      bool          `name:"json" help:"Print the report as JSON."`
	Out       string        `placeholder:"DIR" help:"Write report.json, report.html and plot.svg there."`
	Lang      string        `default:"zh" enum:"zh,en" help:"Language of the report: zh or en."`

	LimitGlobal int `name:"limit-global" default:"1000000" help:"Requests per second the server started here lets through."`
	LimitIP     int `name:"limit-ip" default:"1000000" help:"The same per address."`
	LimitUser   int `name:"limit-user" default:"1000" help:"The same per user."`

	OperatorPhone    string        `default:"13800000001" help:"An operator's account; makes the sale."`
	OperatorPassword string        `default:"tandian-demo" help:"Its password."`
	RestTimeout      time.Duration `default:"60s" help:"How long the queue may take to come to rest."`
	TimeSlice        time.Duration `default:"600ms" hidden:"" help:"Length of a slice of GET /time."`

	Exe    string    `kong:"-"` // program to start for Self; default os.Executable()
	Env    []string  `kong:"-"` // added to the inherited environment of the child
	Stores Stores    `kong:"-"` // of the production mode; zero = embedded
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
	maxKills    = 10

	maxInstances = 8
	maxDelayed   = 1_000_000
)

// UsageError says that the options ask for something that can't be run.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

func (o Options) withDefaults() Options {
	if err := kong.ApplyDefaults(&o); err != nil {
		panic(err) // a tag above is wrong
	}
	if o.Seed == 0 {
		o.Seed = uint64(time.Now().UnixNano())%1_000_000 + 1
	}
	o.Self = o.Self || o.URL == ""
	if !o.Self || o.Broker == "sql" {
		o.Stores = Stores{}
	}
	switch {
	case o.Broker == "stream":
		o.Stores.RabbitMQURL = "" // not used
	case !o.Self || o.Broker != "":
	case o.production():
		o.Broker = "rabbit"
	default:
		o.Broker = "sql"
	}
	if o.Stdout == nil {
		o.Stdout = io.Discard
	}
	if o.Stderr == nil {
		o.Stderr = io.Discard
	}
	return o
}

// prepare fills in defaults. What can't be run is a *UsageError.
func (o Options) prepare() (Options, []Threshold, error) {
	o = o.withDefaults()
	thresholds, err := ParseExpect(o.Expect)
	if err = errors.Join(err, o.validate()); err != nil {
		return o, nil, &UsageError{err}
	}
	if o.Self && o.Exe == "" {
		if o.Exe, err = os.Executable(); err != nil {
			return o, nil, fmt.Errorf("find the program to start: %w", err)
		}
	}
	return o, thresholds, nil
}

func (o Options) validate() error {
	for _, b := range []struct {
		name     string
		v, limit int
	}{{"users", o.Users, maxUsers}, {"stock", o.Stock, maxUsers}, {"clients", o.Clients, maxClients}, {"limit", o.Limit, maxLimit}} {
		if b.v < 1 || b.v > b.limit {
			return fmt.Errorf("--%s must be 1 to %d, not %d", b.name, b.limit, b.v)
		}
	}
	u, err := url.Parse(o.URL)
	production := o.production()
	switch {
	case production && (o.Stores.RedisAddr == "" || o.Stores.RabbitMQURL == "" && o.Broker != "stream"):
		return errors.New("the production mode needs TANDIAN_MYSQL_DSN, TANDIAN_REDIS_ADDR and, but for --broker stream, TANDIAN_RABBITMQ_URL")
	case !production && (o.Broker == "rabbit" || o.Broker == "stream"):
		return fmt.Errorf("--broker %s needs --self and the production stores: set TANDIAN_MYSQL_DSN and its companions", o.Broker)
	case o.Instances < 1 || o.Instances > maxInstances || o.Instances > 1 && !production:
		return fmt.Errorf("--instances must be 1 to %d, and more than 1 needs --self and the production stores", maxInstances)
	case o.Delayed < 0 || o.Delayed > maxDelayed || o.Delayed > 0 && (!production || o.Broker == "stream"):
		return fmt.Errorf("--delayed must be at most %d and needs --self and RabbitMQ", maxDelayed)
	case o.Duration < 0 || o.Duration > maxDuration:
		return fmt.Errorf("--duration must be at most %v", maxDuration)
	case o.Rate < 0 || o.Rate > 1e6:
		return errors.New("--rate must be 0 to 1000000")
	case o.URL != "" && o.Self:
		return errors.New("--url and --self exclude each other")
	case o.Kill < 0 || o.Kill > maxKills || o.Kill > 0 && !o.Self:
		return fmt.Errorf("--kill needs --self and is at most %d", maxKills)
	case o.URL != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https"):
		return fmt.Errorf("--url must be an http or https address, not %q", o.URL)
	}
	return nil
}

// production tells that the server started here uses stores of its own.
func (o Options) production() bool { return o.Stores.MySQLDSN != "" }

// commandLine is a command that repeats the run, seed included.
func (o Options) commandLine(mode string) string {
	words := []string{"tandian", "bench", mode}
	defaults := Options{}
	normal := kong.Must(&defaults).Model.Flags
	if err := kong.ApplyDefaults(&defaults); err != nil {
		panic(err) // a tag above is wrong
	}
	for i, f := range kong.Must(&o).Model.Flags {
		value := f.Target.Interface()
		switch {
		case value == normal[i].Target.Interface():
		case value == true:
			words = append(words, "--"+f.Name)
		default:
			words = append(words, "--"+f.Name, quote(fmt.Sprint(value)))
		}
	}
	return strings.Join(words, " ")
}

// quote makes one word of s for a shell.
func quote(s string) string {
	if strings.ContainsAny(s, " <>=%&;|*?$'\"\\") {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}
