package config

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// name is how a message names a setting: all three ways of setting it.
func name(key string) string { return fmt.Sprintf("--%s (%s, %s:)", key, EnvName(key), key) }

// Validate reports everything that is wrong at once, one line for each fault: which setting, what it is, what would
// be right. It looks at the file system for --web-dir only.
func (c *Config) Validate() error {
	var f faults
	f.addr("addr", c.Addr, ":8080")
	f.addr("admin-addr", c.AdminAddr, "127.0.0.1:9090")
	if _, port, err := net.SplitHostPort(c.Addr); err == nil && port != "0" && c.Addr == c.AdminAddr {
		f.add("admin-addr", c.AdminAddr, "is the same as --addr; give it a port of its own, such as --admin-addr 127.0.0.1:9090")
	}
	if c.DataDir == "" {
		f.add("data-dir", `""`, "names no folder; try --data-dir ./tandian-data")
	}
	if c.WebDir != "" {
		if info, err := os.Stat(c.WebDir); err != nil || !info.IsDir() {
			f.add("web-dir", c.WebDir, "is not a folder; build the web apps with make web, or leave it out to serve the built-in ones")
		}
	}
	f.oneOf("log-level", c.LogLevel, "debug", "info", "warn", "error")
	f.oneOf("log-format", c.LogFormat, "auto", "text", "json")

	c.validateStores(&f)

	f.between("start-timeout", c.StartTimeout, 0, time.Hour)
	f.between("drain-delay", c.DrainDelay, 0, 10*time.Minute)
	f.between("shutdown-timeout", c.ShutdownTimeout, time.Second, 10*time.Minute)
	f.between("session-ttl", c.SessionTTL, time.Second, 90*24*time.Hour)
	f.between("session-max", c.SessionMax, time.Second, 366*24*time.Hour)
	if c.SessionMax < c.SessionTTL {
		f.add("session-max", shortDuration(c.SessionMax), "is shorter than --session-ttl; make it "+shortDuration(c.SessionTTL)+" or more")
	}
	f.between("pay-window", c.PayWindow, time.Second, 30*24*time.Hour)
	f.between("writer-linger", c.WriterLinger, 0, time.Second)
	f.between("confirm-timeout", c.ConfirmTimeout, 10*time.Millisecond, 30*time.Second)
	f.between("sweep-after", c.SweepAfter, time.Second, time.Hour)
	if c.SweepAfter <= c.ConfirmTimeout {
		f.add("sweep-after", shortDuration(c.SweepAfter), "must be longer than --confirm-timeout, or the sweeper looks into what is still on its way")
	}

	f.between("dead-letter-retry", c.DeadLetterRetry, time.Second, 24*time.Hour)
	if c.ReconcileEvery != 0 {
		f.between("reconcile-every", c.ReconcileEvery, 10*time.Second, 24*time.Hour)
	}
	c.validateNotify(&f)

	f.count("limit-global", c.LimitGlobal, 0, 10_000_000)
	f.count("limit-ip", c.LimitIP, 0, 10_000_000)
	f.count("limit-user", c.LimitUser, 0, 10_000_000)
	f.count("writers", c.Writers, 0, 64)
	f.count("writer-batch", c.WriterBatch, 1, 1000)
	f.count("id-block", c.IDBlock, 1, 1_000_000)
	return errors.Join(f...)
}

// Production reports whether the settings ask for the production stores.
func (c *Config) Production() bool { return c.MySQLDSN != "" }

// Values of --broker.
const (
	brokerAuto   = "auto"
	brokerRabbit = "rabbit"
	brokerStream = "stream"
)

// Streams reports whether a production mode queues orders in Redis.
func (c *Config) Streams() bool { return c.Broker == brokerStream }

const minMessageSecret = 16 // characters

// validateStores refuses half a production mode: each store is needed, and none is used without the others. The broker is
// a store that can be replaced.
func (c *Config) validateStores(f *faults) {
	f.oneOf("broker", c.Broker, brokerAuto, brokerRabbit, brokerStream)
	type store struct{ key, value, instead string }
	stores := []store{{key: "mysql-dsn", value: c.MySQLDSN.Reveal()}, {key: "redis-addr", value: c.RedisAddr}}
	if !c.Streams() {
		stores = append(stores, store{"rabbitmq-url", c.RabbitMQURL.Reveal(), ", or --broker stream to queue in Redis"})
	}
	set := c.Broker == brokerStream || c.Broker == brokerRabbit || slices.ContainsFunc(stores, func(s store) bool { return s.value != "" })
	for _, s := range append(stores, store{key: "message-secret", value: c.MessageSecret.Reveal()}) {
		if set && s.value == "" {
			f.add(s.key, `""`, "is needed in the production mode; set it"+s.instead+", or none of --mysql-dsn, --redis-addr, --rabbitmq-url and --broker")
		}
	}
	if n := len(c.MessageSecret.Reveal()); set && n > 0 && n < minMessageSecret {
		f.add("message-secret", mask, fmt.Sprintf("has %d characters, want at least %d; openssl rand -hex 16 makes one", n, minMessageSecret))
	}
}

const minWebhookSecret = 16 // characters

// validateNotify refuses an address that can't be posted to, and one without a secret or the other way round.
func (c *Config) validateNotify(f *faults) {
	secret := c.NotifyWebhookSecret.Reveal()
	encoded, isEncoded := strings.CutPrefix(secret, "whsec_")
	_, err := base64.StdEncoding.DecodeString(encoded)
	u, urlErr := url.Parse(c.NotifyWebhookURL)
	switch {
	case c.NotifyWebhookURL == "" && secret == "":
	case secret == "":
		f.add("notify-webhook-secret", `""`, "is needed with --notify-webhook-url; openssl rand -hex 16 makes one")
	case len(secret) < minWebhookSecret:
		f.add("notify-webhook-secret", mask, fmt.Sprintf("has %d characters, want at least %d; openssl rand -hex 16 makes one", len(secret), minWebhookSecret))
	case isEncoded && err != nil:
		f.add("notify-webhook-secret", mask, "begins with whsec_, but what follows is not base64")
	case urlErr != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil:
		f.add("notify-webhook-url", strconv.Quote(c.NotifyWebhookURL), "is not an http or https address without a password in it; try --notify-webhook-url https://example.com/hooks/tandian")
	}
}

type faults []error

func (f *faults) add(key, value, what string) {
	*f = append(*f, fmt.Errorf("%s: %s %s", name(key), value, what))
}

func (f *faults) addr(key, value, example string) {
	_, port, err := net.SplitHostPort(value)
	n, numErr := strconv.Atoi(port)
	if err != nil || numErr != nil || n < 0 || n > 65535 {
		f.add(key, strconv.Quote(value), fmt.Sprintf("is not HOST:PORT with a port of 0 to 65535; try --%s %s", key, example))
	}
}

func (f *faults) oneOf(key, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		f.add(key, strconv.Quote(value), fmt.Sprintf("is none of %v", allowed))
	}
}

func (f *faults) between(key string, value, low, high time.Duration) {
	inRange(f, key, value, low, high, shortDuration)
}

func (f *faults) count(key string, value, low, high int) {
	inRange(f, key, value, low, high, strconv.Itoa)
}

func inRange[T cmp.Ordered](f *faults, key string, value, low, high T, text func(T) string) {
	if value < low || value > high {
		f.add(key, text(value), fmt.Sprintf("is out of range; choose %s to %s", text(low), text(high)))
	}
}
