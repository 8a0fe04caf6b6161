package config

import (
	"net/netip"
	"time"
)

// Config is everything an operator may set. The tag name is the flag and, unchanged, the key in the file; the
// environment variable is made from it by EnvName. A zero Config isn't usable: let the command line fill in the
// defaults, or use Default.
type Config struct {
	File string `name:"config" placeholder:"FILE" help:"YAML file with any of these settings, keys as the flags without dashes in front."`

	Addr           string         `name:"addr" default:":8080" group:"serve" help:"Public listener: web apps and API. Port 0 takes a free one."`
	AdminAddr      string         `name:"admin-addr" default:"127.0.0.1:9090" group:"serve" help:"Listener for metrics, profiles and health. Keep it off the public network."`
	DataDir        string         `name:"data-dir" default:"./tandian-data" group:"serve" help:"Folder of the embedded stores."`
	Demo           bool           `name:"demo" group:"serve" help:"Fill an empty database with the demo town; its accounts have a well-known password."`
	AllowTestUsers bool           `name:"allow-test-users" group:"serve" help:"Let anybody make signed-in users by POST /console/test-users. For load tests only; --demo implies it."`
	ReadyFile      string         `name:"ready-file" group:"serve" placeholder:"FILE" help:"Written with the addresses once the server serves."`
	WebDir         string         `name:"web-dir" group:"serve" placeholder:"DIR" help:"Serve the web apps from this folder instead of the built-in ones."`
	TrustedProxies []netip.Prefix `name:"trusted-proxies" group:"serve" placeholder:"CIDR" help:"Proxies whose X-Forwarded-For is believed."`
	SecureCookie   bool           `name:"secure-cookie" group:"serve" help:"Mark the session cookie Secure; set it when a proxy serves HTTPS."`

	MySQLDSN      Secret `name:"mysql-dsn" group:"stores" placeholder:"DSN" help:"MySQL 8 or MariaDB 10.6, as user:password@tcp(host:port)/database. With it the production mode is on, and --redis-addr, --message-secret and a queue are needed too."`
	RedisAddr     string `name:"redis-addr" group:"stores" placeholder:"HOST:PORT" help:"Redis 7 for gates and sessions."`
	Broker        string `name:"broker" default:"auto" group:"stores" help:"Queue of the orders: rabbit, stream (Redis Streams, no RabbitMQ needed), or auto: rabbit in the production mode, a table in the embedded one."`
	RabbitMQURL   Secret `name:"rabbitmq-url" group:"stores" placeholder:"URL" help:"RabbitMQ 3.10 or newer, as amqp://user:password@host:port/vhost. Not used with --broker stream."`
	MessageSecret Secret `name:"message-secret" group:"stores" placeholder:"SECRET" help:"Signs queued messages and hashes of codes; at least 16 characters, the same on all instances."`
	RedisUser     string `name:"redis-user" group:"stores" placeholder:"USER" help:"User of Redis, if it isn't the default one."`
	RedisPassword Secret `name:"redis-password" group:"stores" placeholder:"PASSWORD" help:"Password of Redis, if it asks for one."`

	StartTimeout    time.Duration `name:"start-timeout" default:"1m" group:"serve" help:"How long a start waits for a database or a Redis that doesn't answer yet."`
	DrainDelay      time.Duration `name:"drain-delay" default:"0s" group:"serve" help:"How long to go on serving after readiness has turned red; behind a balancer, longer than it takes to notice."`
	ShutdownTimeout time.Duration `name:"shutdown-timeout" default:"15s" group:"serve" help:"How long to drain before giving up."`

	LogLevel  string `name:"log-level" default:"info" group:"log" help:"debug, info, warn or error."`
	LogFormat string `name:"log-format" default:"auto" group:"log" help:"text, json, or auto: text on a terminal, json otherwise."`

	SessionTTL time.Duration `name:"session-ttl" default:"30m" group:"account" help:"A session ends after this long without a request."`
	SessionMax time.Duration `name:"session-max" default:"720h" group:"account" help:"A session ends this long after sign-in at the latest."`

	LimitGlobal int `name:"limit-global" default:"0" group:"limit" help:"Requests per second of everybody together, for every limited route; 0 leaves each route its own figure."`
	LimitIP     int `name:"limit-ip" default:"0" group:"limit" help:"The same for one address."`
	LimitUser   int `name:"limit-user" default:"0" group:"limit" help:"The same for one user."`

	PayWindow       time.Duration `name:"pay-window" default:"30m" group:"order" help:"How long an unpaid order lives."`
	PaymentSandbox  bool          `name:"payment-sandbox" group:"order" help:"Offer a cashier that moves no money as a way to pay, to try things out; --demo implies it."`
	Writers         int           `name:"writers" default:"1" group:"order" help:"Workers that turn queued reservations into orders; 0 consumes nothing."`
	WriterBatch     int           `name:"writer-batch" default:"200" group:"order" help:"Reservations per transaction at most."`
	WriterLinger    time.Duration `name:"writer-linger" default:"5ms" group:"order" help:"How long a batch waits to fill up."`
	ConfirmTimeout  time.Duration `name:"confirm-timeout" default:"1s" group:"order" help:"How long a buyer's answer waits for the queue's word."`
	SweepAfter      time.Duration `name:"sweep-after" default:"10s" group:"order" help:"Age at which a reservation without an order is looked into."`
	DeadLetterRetry time.Duration `name:"dead-letter-retry" default:"1m" group:"order" help:"Pause before a dead letter is sent again by itself, once."`
	ReconcileEvery  time.Duration `name:"reconcile-every" default:"5m" group:"order" help:"How often gate, queue and database are compared; 0 leaves it to tandian reconcile."`
	IDBlock         int           `name:"id-block" default:"1000" group:"order" help:"Order numbers leased at a time."`

	NotifyWebhookURL    string `name:"notify-webhook-url" group:"notify" placeholder:"URL" help:"Where to post a notification of each written order; without it they go to the log."`
	NotifyWebhookSecret Secret `name:"notify-webhook-secret" group:"notify" placeholder:"SECRET" help:"Signs the notifications; at least 16 characters, or whsec_ and base64."`
}

// Groups are the titles of the groups above, for kong.
func Groups() map[string]string {
	return map[string]string{
		"serve":   "Serving",
		"stores":  "Stores of the production mode",
		"log":     "Logs",
		"account": "Sessions",
		"limit":   "Rate limits",
		"order":   "Orders",
		"notify":  "Notifications",
	}
}

const mask = "******"

// Secret is a string that is never shown: not by fmt in any verb, not as JSON or YAML, not in a log. The empty
// secret shows as empty, so that "not set" can be seen.
type Secret string

// Reveal returns the secret itself, for the one place that uses it.
func (s Secret) Reveal() string { return string(s) }

// String implements fmt.Stringer; slog and fmt go through it.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return mask
}

// GoString covers the verb %#v.
func (s Secret) GoString() string { return `config.Secret("` + s.String() + `")` }

// MarshalText covers JSON, YAML and everything else that writes text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
