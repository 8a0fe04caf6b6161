package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

const redisDialTimeout = 2 * time.Second

// Redis examines a Redis server, or every node of the cluster that it belongs to. keepsOrders says that accepted orders
// lie in Redis alone until they are written.
func Redis(o rueidis.ClientOption, keepsOrders bool, now func() time.Time) Examination {
	return func(ctx context.Context, r *Report) {
		o.DisableRetry, o.OnInvalidations = true, nil
		o.Dialer = net.Dialer{Timeout: redisDialTimeout}
		tracking := o
		o.DisableCache = true // what a server may be too old for: its version is to be told first
		client, err := rueidis.NewClient(o)
		if err != nil {
			r.add(noRedis(err, o))
			return
		}
		defer client.Close()
		e := &redisExamination{Report: r, client: client, tracking: tracking, keepsOrders: keepsOrders, now: now}
		for _, step := range []func(context.Context) error{e.nodes, e.writes, e.hears, e.rings} {
			if err := step(ctx); err != nil {
				r.add(noRedis(err, o))
				return
			}
		}
	}
}

type redisExamination struct {
	*Report
	client      rueidis.Client
	tracking    rueidis.ClientOption // as the product connects: to be told of changes
	keepsOrders bool
	now         func() time.Time
}

// noRedis explains why Redis gave no answer.
func noRedis(err error, o rueidis.ClientOption) Finding {
	f := Finding{Check: "redis", Status: Failed}
	at := "Redis at " + strings.Join(o.InitAddress, ", ")
	refusal, ok := rueidis.IsRedisErr(err)
	if !ok {
		f.Found, f.Passing = at+" gives no answer: "+cause(err), true
		f.Remedy = "start the server, or correct --redis-addr"
		return f
	}
	text := refusal.Error()
	f.Found = at + " refuses: " + text
	switch word, _, _ := strings.Cut(text, " "); word {
	case "NOAUTH", "WRONGPASS":
		f.Remedy = "correct --redis-user and --redis-password"
	case "NOPERM":
		f.Remedy = "give the user all commands and keys (ACL SETUSER … +@all ~* &*)"
	case "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN":
		f.Passing, f.Remedy = true, "wait until the server is up"
	case "DENIED":
		f.Remedy = "set a password, or bind the server to the address that it is asked at"
	case "READONLY":
		f.Remedy = "name the primary in --redis-addr"
	case "OOM":
		f.Remedy = "raise maxmemory"
	case "MISCONF":
		f.Remedy = "make room on the server's disk, and see its log"
	case "NOREPLICAS":
		f.Passing, f.Remedy = true, "bring its replicas back, or lower min-replicas-to-write"
	default:
		f.Remedy = "see the server's log"
	}
	return f
}

// nodes judges each server by what it says of itself.
func (e *redisExamination) nodes(ctx context.Context) error {
	judged := map[string][]Finding{} // by address
	for addr, node := range e.client.Nodes() {
		text, err := node.Do(ctx, node.B().Info().Build()).ToString()
		if err != nil {
			return err
		}
		judged[addr] = judgeRedis(addr, parseInfo(text), e.keepsOrders)
	}
	addrs := slices.Sorted(maps.Keys(judged))
	if len(addrs) == 0 {
		return errors.New("the cluster has no nodes")
	}
	// What all nodes have is told once, what only some have is told of each.
	for i, first := range judged[addrs[0]] {
		bad := slices.DeleteFunc(slices.Clone(addrs), func(addr string) bool { return judged[addr][i].Status == OK })
		if len(bad) == 0 {
			if len(addrs) > 1 {
				first.Found = fmt.Sprintf("%s (and so for all %d nodes)", first.Found, len(addrs))
			}
			e.add(first)
		}
		for _, addr := range bad {
			f := judged[addr][i]
			if len(addrs) > 1 {
				f.Found = addr + ": " + f.Found
			}
			e.add(f)
		}
	}
	return nil
}

// parseInfo reads the answer to INFO: lines of name:value.
func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}

// judgeRedis always returns the same checks in the same order.
func judgeRedis(addr string, info map[string]string, keepsOrders bool) []Finding {
	r := &Report{}
	version, mode := info["redis_version"], info["redis_mode"]
	found := fmt.Sprintf("Redis %s at %s, %s", version, addr, mode)
	switch {
	case !atLeast(version, 6, 2):
		r.fail("redis", found+": too old", "upgrade to Redis 7.0 or newer")
	case !atLeast(version, 7, 0):
		r.warn("redis", found+": not tested with this version", "upgrade to Redis 7.0 or newer")
	default:
		r.ok("redis", "%s", found)
	}
	if primary := net.JoinHostPort(info["master_host"], info["master_port"]); info["role"] == "slave" && mode != "cluster" {
		r.fail("redis role", "a replica of "+primary+": it takes no writes", "name the primary: --redis-addr "+primary)
	} else {
		r.ok("redis role", "%s", map[bool]string{true: "cluster node", false: "primary"}[mode == "cluster"])
	}
	if policy := info["maxmemory_policy"]; policy == "noeviction" {
		r.ok("redis eviction", "noeviction")
	} else {
		r.fail("redis eviction", "maxmemory-policy is "+policy+": when memory is short it drops "+dropped(policy),
			"CONFIG SET maxmemory-policy noeviction, and the same in redis.conf")
	}
	r.memory(info)
	r.persistence(info, keepsOrders)
	return r.findings
}

// dropped says what an eviction policy may take. Sessions, codes and counters have a time to live; what makes a gate
// has one only while the gate is being prepared.
func dropped(policy string) string {
	if strings.HasPrefix(policy, "volatile-") {
		return "sessions, the counters that stop guessing, and parts of a gate that is being loaded, which then forgets its buyers"
	}
	return "buyers and accepted reservations of a running sale"
}

func (r *Report) memory(info map[string]string) {
	used, _ := strconv.ParseInt(info["used_memory"], 10, 64)
	limit, _ := strconv.ParseInt(info["maxmemory"], 10, 64)
	switch {
	case limit == 0:
		r.ok("redis memory", "%s used, no limit", bytes(used))
	case used > limit/10*8:
		r.warn("redis memory", fmt.Sprintf("%s of %s used: past the limit nothing can be bought", bytes(used), bytes(limit)), "raise maxmemory")
	default:
		r.ok("redis memory", "%s of %s used", bytes(used), bytes(limit))
	}
}

func (r *Report) persistence(info map[string]string, keepsOrders bool) {
	const remedy = "CONFIG SET appendonly yes, and the same in redis.conf"
	switch {
	case info["aof_enabled"] == "1" && info["aof_last_write_status"] == "err":
		r.fail("redis persistence", "the append-only file can't be written", "make room on the server's disk, and see its log")
	case info["aof_enabled"] == "1":
		r.ok("redis persistence", "append-only file")
	case keepsOrders:
		r.fail("redis persistence", "no append-only file: accepted orders that are not written yet are lost when the server restarts", remedy)
	default:
		r.warn("redis persistence", "no append-only file: a restart ends all sessions, and loses accepted orders that the queue had not confirmed; gates are loaded from the database again", remedy)
	}
}

// bytes is a size for people.
func bytes(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MB", n>>20)
	}
	return fmt.Sprintf("%d kB", n>>10)
}

// writes tries what the product does all day: a script, and a key with a time to live.
func (e *redisExamination) writes(ctx context.Context) error {
	key := "doctor:" + rand.Text()
	set := e.client.B().Set().Key(key).Value("").Px(time.Minute).Build()
	if err := e.client.Do(ctx, set).Error(); err != nil {
		return err
	}
	asked := e.now()
	parts, err := rueidis.NewLuaScript("redis.call('DEL', KEYS[1]) return redis.call('TIME')").Exec(ctx, e.client, []string{key}, nil).AsIntSlice()
	if err != nil {
		return err
	}
	if len(parts) != 2 {
		return fmt.Errorf("TIME has %d parts", len(parts))
	}
	e.ok("redis writes", "taken, scripts run")
	e.clock("redis clock", "Redis's clock", asked, e.now(), time.Unix(parts[0], parts[1]*1000))
	return nil
}

// hears connects once more as the product does: what it remembers of sessions and sales it is told the end of.
func (e *redisExamination) hears(context.Context) error {
	client, err := rueidis.NewClient(e.tracking)
	switch {
	case errors.Is(err, rueidis.ErrNoCache): // what the client makes of any refusal
		e.fail("redis tracking", "RESP3 or CLIENT TRACKING is refused, so that nobody tells of changes", "give the user all commands (ACL SETUSER … +@all ~* &*), and connect without a proxy in between")
		return nil
	case err != nil:
		return err
	}
	client.Close()
	e.ok("redis tracking", "changes are told")
	return nil
}

// rings tries a channel as the queue in Redis uses them: to tell consumers that there is something.
func (e *redisExamination) rings(ctx context.Context) error {
	if !e.keepsOrders {
		return nil
	}
	err := e.client.Do(ctx, e.client.B().Publish().Channel("queue:{doctor}:bell").Message("").Build()).Error()
	if _, refused := rueidis.IsRedisErr(err); refused {
		e.warn("redis channels", "PUBLISH is refused: orders wait up to a second for their writer", "give the user the channels of the queue (ACL SETUSER … &queue:*)")
		return nil
	}
	return err
}
