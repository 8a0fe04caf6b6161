package doctor

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

func TestRedis(t *testing.T) {
	private(t)
	plain := rueidis.ClientOption{InitAddress: []string{own.redis}}
	as := func(user, password string) rueidis.ClientOption {
		return rueidis.ClientOption{InitAddress: plain.InitAddress, Username: user, Password: password}
	}
	_, port, err := net.SplitHostPort(own.redis)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name         string
		wrong, right []string
		option       rueidis.ClientOption
		now          func() time.Time
		want         []want
	}{
		{"as it should be", nil, nil, plain, now, nil},
		{"drops any key", []string{"CONFIG SET maxmemory-policy allkeys-lru"}, []string{"CONFIG SET maxmemory-policy noeviction"}, plain, now,
			[]want{{"redis eviction", Failed, "accepted reservations", "CONFIG SET maxmemory-policy noeviction", false}}},
		{"drops keys with a time to live", []string{"CONFIG SET maxmemory-policy volatile-ttl"}, []string{"CONFIG SET maxmemory-policy noeviction"}, plain, now,
			[]want{{"redis eviction", Failed, "forgets its buyers", "CONFIG SET maxmemory-policy noeviction", false}}},
		{"keeps nothing", []string{"CONFIG SET appendonly no"}, []string{"CONFIG SET appendonly yes"}, plain, now,
			[]want{{"redis persistence", Warning, "ends all sessions", "CONFIG SET appendonly yes", false}}},
		{"no memory left", []string{"CONFIG SET maxmemory 1kb"}, []string{"CONFIG SET maxmemory 0"}, plain, now,
			[]want{{"redis memory", Warning, "past the limit nothing can be bought", "raise maxmemory", false}, {"redis", Failed, "OOM", "raise maxmemory", false}}},
		{"a replica", []string{"REPLICAOF 127.0.0.1 " + port}, []string{"REPLICAOF NO ONE"}, plain, now, []want{
			{"redis role", Failed, "a replica of 127.0.0.1:" + port, "--redis-addr 127.0.0.1:" + port, false}, {"redis", Failed, "READONLY", "name the primary", false}}},
		{"wrong user", nil, nil, as("nobody", "pa55word-wrong"), now, []want{{"redis", Failed, "WRONGPASS", "--redis-user and --redis-password", false}}},
		{"a user with a password", []string{"ACL SETUSER seller on >pa55word-4 ~* &* +@all"}, []string{"ACL DELUSER seller"}, as("seller", "pa55word-4"), now, nil},
		{"a user who may not", []string{"ACL SETUSER reader on >pa55word-5 ~* &* +@all -@write"}, []string{"ACL DELUSER reader"}, as("reader", "pa55word-5"), now,
			[]want{{"redis", Failed, "NOPERM", "ACL SETUSER", false}}},
		{"a user who may not ask about the server", []string{"ACL SETUSER blind on >pa55word-7 ~* &* +@all -info"}, []string{"ACL DELUSER blind"}, as("blind", "pa55word-7"), now,
			[]want{{"redis", Failed, "NOPERM", "ACL SETUSER", false}}},
		{"a user who isn't told of changes", []string{"ACL SETUSER deaf on >pa55word-8 ~* &* +@all -client|tracking"}, []string{"ACL DELUSER deaf"}, as("deaf", "pa55word-8"), now,
			[]want{{"redis tracking", Failed, "CLIENT TRACKING", "ACL SETUSER", false}}},
		{"clocks apart", nil, nil, plain, ahead(3 * time.Second), []want{{"redis clock", Warning, "more than the second", "NTP", false}}},
		{"clocks far apart", nil, nil, plain, ahead(-10 * time.Second), []want{{"redis clock", Failed, "different moments", "NTP", false}}},
		{"nobody listens", nil, nil, rueidis.ClientOption{InitAddress: []string{closedPort}}, now, []want{{"redis", Failed, "connection refused", "start the server", true}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			redisDo(t, plain, tt.wrong...)
			defer redisDo(t, plain, tt.right...)
			expect(t, Redis(tt.option, false, tt.now), tt.want...)
		})
	}
	t.Run("a user without channels", func(t *testing.T) {
		redisDo(t, plain, "ACL SETUSER mute on >pa55word-9 ~* resetchannels +@all")
		defer redisDo(t, plain, "ACL DELUSER mute")
		expect(t, Redis(as("mute", "pa55word-9"), false, now))
		expect(t, Redis(as("mute", "pa55word-9"), true, now), want{"redis channels", Warning, "wait up to a second", "&queue:*", false})
	})
	t.Run("a password that we don't know of", func(t *testing.T) {
		redisDo(t, plain, "CONFIG SET requirepass pa55word-6")
		defer redisDo(t, as("", "pa55word-6"), "CONFIG SET requirepass "+"''")
		expect(t, Redis(plain, false, now), want{"redis", Failed, "NOAUTH", "--redis-password", false})
		expect(t, Redis(as("", "pa55word-wrong"), false, now), want{"redis", Failed, "WRONGPASS", "--redis-password", false})
		expect(t, Redis(as("", "pa55word-6"), false, now))
	})
}

// A server that accepts connections and then says nothing costs a moment, not for ever.
func TestRedisSilent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	expect(t, Redis(rueidis.ClientOption{InitAddress: []string{l.Addr().String()}}, false, now), want{"redis", Failed, "timeout", "start the server", true})
}

func TestJudgeRedis(t *testing.T) {
	good := "redis_version:7.0.15\r\nredis_mode:standalone\r\nrole:master\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\nused_memory:1048576\r\naof_enabled:1\r\naof_last_write_status:ok\r\n"
	for _, tt := range []struct {
		name, old, new string
		keepsOrders    bool
		check          string
		status         Status
	}{
		{"old", "7.0.15", "5.0.14", false, "redis", Failed},
		{"just too old", "7.0.15", "6.0.20", false, "redis", Failed},
		{"untested", "7.0.15", "6.2.14", false, "redis", Warning},
		{"newer", "7.0.15", "8.2.1", false, "redis", OK},
		{"replica of a cluster", "standalone\r\nrole:master", "cluster\r\nrole:slave", false, "redis role", OK},
		{"replica", "role:master", "role:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:6379", false, "redis role", Failed},
		{"nothing kept", "aof_enabled:1", "aof_enabled:0", false, "redis persistence", Warning},
		{"accepted orders not kept", "aof_enabled:1", "aof_enabled:0", true, "redis persistence", Failed},
		{"disk full", "status:ok", "status:err", false, "redis persistence", Failed},
		{"memory short", "maxmemory:0", "maxmemory:1200000", false, "redis memory", Warning},
		{"memory enough", "maxmemory:0", "maxmemory:12000000", false, "redis memory", OK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if strings.Count(good, tt.old) != 1 {
				t.Fatal("the change changes nothing")
			}
			for _, f := range judgeRedis("h:1", parseInfo(strings.Replace(good, tt.old, tt.new, 1)), tt.keepsOrders) {
				switch {
				case f.Check == tt.check && f.Status != tt.status:
					t.Errorf("got %s %s, want %s", f.Status, f, tt.status)
				case f.Check != tt.check && f.Status != OK:
					t.Errorf("unasked: %s %s", f.Status, f)
				}
			}
		})
	}
}
