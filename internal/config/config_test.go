package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

// parse runs a command line the way cmd/tandian does.
func parse(t *testing.T, env map[string]string, args ...string) (*Config, *Sources, error) {
	t.Helper()
	c := &Config{}
	src := NewSources(func(k string) (string, bool) { v, ok := env[k]; return v, ok })
	parser, err := kong.New(c, kong.Resolvers(src), kong.ExplicitGroups(nil))
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse(args)
	return c, src, err
}

func write(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "tandian.yaml")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestPrecedence(t *testing.T) {
	const yaml, env, flag = 1, 2, 4
	for sources := range 8 {
		for _, s := range []struct {
			key                    string
			value                  func(*Config) any
			byDefault              any
			yaml, env, flag        string
			wantYAML, wantE, wantF any
		}{
			{"addr", func(c *Config) any { return c.Addr }, ":8080", `":1"`, ":2", ":3", ":1", ":2", ":3"},
			{"pay-window", func(c *Config) any { return c.PayWindow }, 30 * time.Minute, "1m", "2m", "3m", time.Minute, 2 * time.Minute, 3 * time.Minute},
			{"writers", func(c *Config) any { return c.Writers }, 1, "0", "2", "3", 0, 2, 3},
			{"demo", func(c *Config) any { return c.Demo }, false, "true", "false", "true", true, false, true},
			{"trusted-proxies", func(c *Config) any { return fmt.Sprint(c.TrustedProxies) }, "[]",
				"[10.0.0.0/8, 192.168.0.0/16]", "172.16.0.0/12", "::1/128,fd00::/8", "[10.0.0.0/8 192.168.0.0/16]", "[172.16.0.0/12]", "[::1/128 fd00::/8]"},
		} {
			t.Run(fmt.Sprintf("%s/%03b", s.key, sources), func(t *testing.T) {
				want, origin := s.byDefault, Origin{Kind: "default"}
				var args []string
				vars := map[string]string{}
				if sources&yaml != 0 {
					file := write(t, "# first\n"+s.key+": "+s.yaml+"\n")
					args = append(args, "--config", file)
					want, origin = s.wantYAML, Origin{"file", file + ":2"}
				}
				if sources&env != 0 {
					vars[EnvName(s.key)] = s.env
					want, origin = s.wantE, Origin{"env", EnvName(s.key)}
				}
				if sources&flag != 0 {
					args = append(args, "--"+s.key+"="+s.flag)
					want, origin = s.wantF, Origin{"flag", "--" + s.key}
				}
				c, src, err := parse(t, vars, args...)
				if err != nil || src.Err() != nil {
					t.Fatal(err, src.Err())
				}
				if got := s.value(c); got != want {
					t.Errorf("value %v, want %v", got, want)
				}
				if got := src.Origin(s.key); got != origin {
					t.Errorf("origin %v, want %v", got, origin)
				}
			})
		}
	}
}

func TestFileNamedByTheEnvironment(t *testing.T) {
	file := write(t, "log-level: debug\n")
	other := write(t, "log-level: warn\n")
	c, src, err := parse(t, map[string]string{"TANDIAN_CONFIG": file})
	if err != nil || src.Err() != nil || c.LogLevel != "debug" {
		t.Fatal(c.LogLevel, err, src.Err())
	}
	if c, _, _ = parse(t, map[string]string{"TANDIAN_CONFIG": file}, "--config", other); c.LogLevel != "warn" {
		t.Fatalf("--config must beat TANDIAN_CONFIG, got %s", c.LogLevel)
	}
}

func TestEmptyVariableCountsAsNotSet(t *testing.T) {
	c, src, err := parse(t, map[string]string{"TANDIAN_ADDR": "", "TANDIAN_WRITERS": ""})
	if err != nil || src.Err() != nil || c.Addr != ":8080" || c.Writers != 1 {
		t.Fatal(c.Addr, c.Writers, err, src.Err())
	}
}

// Every value that can't be used is reported, not only the first, and what is overruled is not.
func TestSourceFaultsComeTogether(t *testing.T) {
	file := write(t, "pay-window: 30\nwriters: many\nsession-ttl: soon\n")
	_, src, err := parse(t, map[string]string{"TANDIAN_DEMO": "perhaps", "TANDIAN_TRUSTED_PROXIES": "10.0.0.1", "TANDIAN_SESSION_TTL": "1h"}, "--config", file)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(src.Err())
	for _, want := range []string{
		"--pay-window (TANDIAN_PAY_WINDOW, pay-window:) (from file " + file + ":1): ",
		"--writers (TANDIAN_WRITERS, writers:) (from file " + file + ":2): ",
		"--demo (TANDIAN_DEMO, demo:) (from env TANDIAN_DEMO): ",
		"--trusted-proxies (TANDIAN_TRUSTED_PROXIES, trusted-proxies:) (from env TANDIAN_TRUSTED_PROXIES): ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
	if strings.Contains(got, "session-ttl") || strings.Count(got, "\n") != 3 {
		t.Errorf("want four faults and none about the overruled session-ttl:\n%s", got)
	}
}

func TestMissingFile(t *testing.T) {
	_, src, err := parse(t, nil, "--config", "/nowhere/tandian.yaml")
	if err != nil || src.Err() == nil || !strings.Contains(src.Err().Error(), "/nowhere/tandian.yaml: no such file") {
		t.Fatal(err, src.Err())
	}
}

func TestSettingsShowValueAndOrigin(t *testing.T) {
	c, src, err := parse(t, map[string]string{"TANDIAN_SESSION_MAX": "36h30m"}, "--trusted-proxies", "10.0.0.0/8,::1/128")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]Setting{}
	for _, s := range c.Settings(src.Origin) {
		got[s.Key] = s
	}
	for key, want := range map[string]string{
		"addr": ":8080 default", "session-max": "36h30m env TANDIAN_SESSION_MAX", "pay-window": "30m default", "demo": "false default",
		"trusted-proxies": "10.0.0.0/8,::1/128 flag --trusted-proxies", "writer-linger": "5ms default", "shutdown-timeout": "15s default",
	} {
		if line := got[key].Value + " " + got[key].Origin.String(); line != want {
			t.Errorf("%s: %q, want %q", key, line, want)
		}
	}
	if _, ok := got["config"]; ok {
		t.Error("the file's own name is no setting")
	}
}

// The file that `config init` writes must be accepted as it is, and with every line switched on.
func TestTemplateParses(t *testing.T) {
	text := Template()
	on := strings.ReplaceAll(text, "\n# ", "\n")
	var lines []string
	for line := range strings.Lines(on) {
		if key, _, ok := strings.Cut(line, ":"); ok && !strings.Contains(key, " ") {
			lines = append(lines, line)
		}
	}
	if len(lines) != len(Default().Settings(nil)) {
		t.Fatalf("%d lines for %d settings:\n%s", len(lines), len(Default().Settings(nil)), text)
	}
	for _, content := range []string{text, strings.Join(lines, "")} {
		c, src, err := parse(t, nil, "--config", write(t, content))
		if err != nil || src.Err() != nil {
			t.Fatal(err, src.Err())
		}
		if got, want := fmt.Sprint(c.Settings(nil)), fmt.Sprint(Default().Settings(nil)); got != want {
			t.Errorf("the template changes settings:\n%s\n%s", got, want)
		}
	}
}

func TestDefaultIsValid(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Fatal(err)
	}
}

// Every setting has a name, a help text and a group.
func TestEverySettingIsDescribed(t *testing.T) {
	groups := Groups()
	for key, f := range fields(&Config{}) {
		if key == "" || f.tag.Get("help") == "" || key != "config" && groups[f.tag.Get("group")] == "" {
			t.Errorf("%q lacks name, help or group: %s", key, f.tag)
		}
	}
}

func TestValidateNamesEveryFault(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(*Config)
		want  string
	}{
		{"addr without port", func(c *Config) { c.Addr = "8080" }, `--addr (TANDIAN_ADDR, addr:): "8080" is not HOST:PORT with a port of 0 to 65535; try --addr :8080`},
		{"addr out of range", func(c *Config) { c.Addr = ":70000" }, `--addr (TANDIAN_ADDR, addr:): ":70000" is not HOST:PORT with a port of 0 to 65535; try --addr :8080`},
		{"named port", func(c *Config) { c.AdminAddr = "127.0.0.1:http" }, `--admin-addr (TANDIAN_ADMIN_ADDR, admin-addr:): "127.0.0.1:http" is not HOST:PORT with a port of 0 to 65535; try --admin-addr 127.0.0.1:9090`},
		{"one port for both", func(c *Config) { c.AdminAddr = ":8080" }, `--admin-addr (TANDIAN_ADMIN_ADDR, admin-addr:): :8080 is the same as --addr; give it a port of its own, such as --admin-addr 127.0.0.1:9090`},
		{"no folder", func(c *Config) { c.DataDir = "" }, `--data-dir (TANDIAN_DATA_DIR, data-dir:): "" names no folder; try --data-dir ./tandian-data`},
		{"no web folder", func(c *Config) { c.WebDir = "/nowhere" }, `--web-dir (TANDIAN_WEB_DIR, web-dir:): /nowhere is not a folder; build the web apps with make web, or leave it out to serve the built-in ones`},
		{"log level", func(c *Config) { c.LogLevel = "loud" }, `--log-level (TANDIAN_LOG_LEVEL, log-level:): "loud" is none of [debug info warn error]`},
		{"log format", func(c *Config) { c.LogFormat = "xml" }, `--log-format (TANDIAN_LOG_FORMAT, log-format:): "xml" is none of [auto text json]`},
		{"shutdown timeout", func(c *Config) { c.ShutdownTimeout = 0 }, `--shutdown-timeout (TANDIAN_SHUTDOWN_TIMEOUT, shutdown-timeout:): 0s is out of range; choose 1s to 10m`},
		{"session ttl", func(c *Config) { c.SessionTTL = 0 }, `--session-ttl (TANDIAN_SESSION_TTL, session-ttl:): 0s is out of range; choose 1s to 2160h`},
		{"session max", func(c *Config) { c.SessionMax = 1e18 }, `--session-max (TANDIAN_SESSION_MAX, session-max:): 277777h46m40s is out of range; choose 1s to 8784h`},
		{"session max below ttl", func(c *Config) { c.SessionMax = 29 * time.Minute }, `--session-max (TANDIAN_SESSION_MAX, session-max:): 29m is shorter than --session-ttl; make it 30m or more`},
		{"pay window", func(c *Config) { c.PayWindow = -time.Minute }, `--pay-window (TANDIAN_PAY_WINDOW, pay-window:): -1m is out of range; choose 1s to 720h`},
		{"linger", func(c *Config) { c.WriterLinger = 2 * time.Second }, `--writer-linger (TANDIAN_WRITER_LINGER, writer-linger:): 2s is out of range; choose 0s to 1s`},
		{"confirm timeout", func(c *Config) { c.ConfirmTimeout = time.Millisecond }, `--confirm-timeout (TANDIAN_CONFIRM_TIMEOUT, confirm-timeout:): 1ms is out of range; choose 10ms to 30s`},
		{"sweep too late", func(c *Config) { c.SweepAfter = 2 * time.Hour }, `--sweep-after (TANDIAN_SWEEP_AFTER, sweep-after:): 2h is out of range; choose 1s to 1h`},
		{"sweep below confirm", func(c *Config) { c.SweepAfter = time.Second }, `--sweep-after (TANDIAN_SWEEP_AFTER, sweep-after:): 1s must be longer than --confirm-timeout, or the sweeper looks into what is still on its way`},
		{"limits", func(c *Config) { c.LimitGlobal = -1 }, `--limit-global (TANDIAN_LIMIT_GLOBAL, limit-global:): -1 is out of range; choose 0 to 10000000`},
		{"limit ip", func(c *Config) { c.LimitIP = -1 }, `--limit-ip (TANDIAN_LIMIT_IP, limit-ip:): -1 is out of range; choose 0 to 10000000`},
		{"limit user", func(c *Config) { c.LimitUser = -1 }, `--limit-user (TANDIAN_LIMIT_USER, limit-user:): -1 is out of range; choose 0 to 10000000`},
		{"writers", func(c *Config) { c.Writers = -1 }, `--writers (TANDIAN_WRITERS, writers:): -1 is out of range; choose 0 to 64`},
		{"batch", func(c *Config) { c.WriterBatch = 0 }, `--writer-batch (TANDIAN_WRITER_BATCH, writer-batch:): 0 is out of range; choose 1 to 1000`},
		{"dead letter retry", func(c *Config) { c.DeadLetterRetry = 0 }, `--dead-letter-retry (TANDIAN_DEAD_LETTER_RETRY, dead-letter-retry:): 0s is out of range; choose 1s to 24h`},
		{"reconcile", func(c *Config) { c.ReconcileEvery = time.Second }, `--reconcile-every (TANDIAN_RECONCILE_EVERY, reconcile-every:): 1s is out of range; choose 10s to 24h`},
		{"never reconcile", func(c *Config) { c.ReconcileEvery = 0 }, `<nil>`},
		{"webhook without a secret", func(c *Config) { c.NotifyWebhookURL = "https://h" }, `--notify-webhook-secret (TANDIAN_NOTIFY_WEBHOOK_SECRET, notify-webhook-secret:): "" is needed with --notify-webhook-url; openssl rand -hex 16 makes one`},
		{"short secret", func(c *Config) { c.NotifyWebhookURL, c.NotifyWebhookSecret = "https://h", "short" }, `--notify-webhook-secret (TANDIAN_NOTIFY_WEBHOOK_SECRET, notify-webhook-secret:): ****** has 5 characters, want at least 16; openssl rand -hex 16 makes one`},
		{"secret that isn't base64", func(c *Config) { c.NotifyWebhookURL, c.NotifyWebhookSecret = "https://h", "whsec_not base64 at all" }, `--notify-webhook-secret (TANDIAN_NOTIFY_WEBHOOK_SECRET, notify-webhook-secret:): ****** begins with whsec_, but what follows is not base64`},
		{"webhook of another kind", func(c *Config) { c.NotifyWebhookURL, c.NotifyWebhookSecret = "ftp://h", "0123456789abcdef" }, `--notify-webhook-url (TANDIAN_NOTIFY_WEBHOOK_URL, notify-webhook-url:): "ftp://h" is not an http or https address without a password in it; try --notify-webhook-url https://example.com/hooks/tandian`},
		{"webhook", func(c *Config) {
			c.NotifyWebhookURL, c.NotifyWebhookSecret = "http://h:1/x?y", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
		}, `<nil>`},
		{"broker", func(c *Config) { c.Broker = "kafka" }, `--broker (TANDIAN_BROKER, broker:): "kafka" is none of [auto rabbit stream]`},
		{"no queue", func(c *Config) {
			c.MySQLDSN, c.RedisAddr, c.MessageSecret = "dsn", "localhost:6379", "0123456789abcdef"
		}, `--rabbitmq-url (TANDIAN_RABBITMQ_URL, rabbitmq-url:): "" is needed in the production mode; set it, or --broker stream to queue in Redis, or none of --mysql-dsn, --redis-addr, --rabbitmq-url and --broker`},
		{"streams without stores", func(c *Config) { c.Broker, c.MessageSecret = "stream", "0123456789abcdef" },
			`--mysql-dsn (TANDIAN_MYSQL_DSN, mysql-dsn:): "" is needed in the production mode; set it, or none of --mysql-dsn, --redis-addr, --rabbitmq-url and --broker
--redis-addr (TANDIAN_REDIS_ADDR, redis-addr:): "" is needed in the production mode; set it, or none of --mysql-dsn, --redis-addr, --rabbitmq-url and --broker`},
		{"streams", func(c *Config) {
			c.Broker, c.MySQLDSN, c.RedisAddr, c.MessageSecret = "stream", "dsn", "localhost:6379", "0123456789abcdef"
		}, `<nil>`},
		{"id block", func(c *Config) { c.IDBlock = 0 }, `--id-block (TANDIAN_ID_BLOCK, id-block:): 0 is out of range; choose 1 to 1000000`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := Default()
			tt.spoil(c)
			if got := fmt.Sprint(c.Validate()); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestValidateReportsAllAtOnce(t *testing.T) {
	got := fmt.Sprint((&Config{}).Validate())
	if n := strings.Count(got, "\n") + 1; n < 12 {
		t.Errorf("a zero Config has many faults, got %d:\n%s", n, got)
	}
}

func TestValidateAllowsFreePorts(t *testing.T) {
	c := Default()
	c.Addr, c.AdminAddr = "127.0.0.1:0", "127.0.0.1:0"
	c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
}

func TestSecretIsNeverShown(t *testing.T) {
	const hidden = "correct-horse"
	s := Secret(hidden)
	asJSON, err := json.Marshal(struct{ S Secret }{s})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "s", s, "in", struct{ S Secret }{s})
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "s", s, "in", struct{ S Secret }{s})
	for _, out := range []string{fmt.Sprint(s), fmt.Sprintf("%s %v %+v %#v %q", s, s, struct{ S Secret }{s}, struct{ S Secret }{s}, s), string(asJSON), log.String()} {
		if strings.Contains(out, hidden) || !strings.Contains(out, mask) {
			t.Errorf("want a mask, got %s", out)
		}
	}
	if s.Reveal() != hidden || Secret("").String() != "" {
		t.Error("Reveal must return the secret, and an empty one must show as empty")
	}
}

// The READMEs list every setting with its default, and none that is gone.
func TestReadmesListEverySetting(t *testing.T) {
	for _, file := range []string{"../../README.md", "../../README.zh.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		settings := Default().Settings(nil)
		for _, s := range settings {
			value := "–"
			if s.Value != "" {
				value = "`" + s.Value + "`"
			}
			if row := fmt.Sprintf("| `--%s` | %s | ", s.Key, value); !strings.Contains(string(text), row) {
				t.Errorf("%s: no row %q", file, row)
			}
		}
		if n := strings.Count(string(text), "\n| `--"); n != len(settings) {
			t.Errorf("%s: %d rows for %d settings", file, n, len(settings))
		}
	}
}
