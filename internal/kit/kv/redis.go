package kv

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// Redis keeps everything in a Redis server, shared by all instances. Commands of concurrent callers share round trips.
type Redis struct {
	Client rueidis.Client
	Link   *Link // to the same server; nil = no lease holds
}

var _ Store = (*Redis)(nil)

// incr counts and starts the time to live with the first count.
//
//	KEYS[1] counter, ARGV[1] ttl in ms; returns the count
var incr = rueidis.NewLuaScript(`
local n = redis.call('INCR', KEYS[1])
if n == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return n`)

func (r *Redis) Get(ctx context.Context, key string) ([]byte, bool, error) {
	return value(r.Client.Do(ctx, r.Client.B().Get().Key(key).Build()))
}

func (r *Redis) GetTTL(ctx context.Context, key string) ([]byte, time.Duration, bool, error) {
	res := r.Client.DoMulti(ctx, r.Client.B().Get().Key(key).Build(), r.Client.B().Pttl().Key(key).Build())
	v, ok, err := value(res[0])
	if !ok || err != nil {
		return nil, 0, false, err
	}
	left, err := timeLeft(res[1])
	return v, left, err == nil, err
}

func (r *Redis) Set(ctx context.Context, key string, v []byte, ttl time.Duration) error {
	defer r.Link.changed(key)
	return r.Client.Do(ctx, r.Client.B().Set().Key(key).Value(rueidis.BinaryString(v)).Px(ttl).Build()).Error()
}

func (r *Redis) SetNX(ctx context.Context, key string, v []byte, ttl time.Duration) (bool, error) {
	defer r.Link.changed(key)
	err := r.Client.Do(ctx, r.Client.B().Set().Key(key).Value(rueidis.BinaryString(v)).Nx().Px(ttl).Build()).Error()
	if rueidis.IsRedisNil(err) {
		return false, nil
	}
	return err == nil, err
}

func (r *Redis) Take(ctx context.Context, key string) ([]byte, bool, error) {
	defer r.Link.changed(key)
	return value(r.Client.Do(ctx, r.Client.B().Getdel().Key(key).Build()))
}

// value turns Redis's nil into "not there".
func value(res rueidis.RedisResult) ([]byte, bool, error) {
	v, err := res.AsBytes()
	if rueidis.IsRedisNil(err) {
		return nil, false, nil
	}
	return v, err == nil, err
}

func (r *Redis) Del(ctx context.Context, keys ...string) error {
	defer r.Link.changed(keys...)
	commands := make(rueidis.Commands, len(keys)) // one each: the keys may live in different cluster slots
	for i, key := range keys {
		commands[i] = r.Client.B().Del().Key(key).Build()
	}
	return firstError(r.Client.DoMulti(ctx, commands...))
}

func (r *Redis) Touch(ctx context.Context, key string, ttl time.Duration) (bool, error) {
	defer r.Link.changed(key)
	return r.Client.Do(ctx, r.Client.B().Pexpire().Key(key).Milliseconds(ttl.Milliseconds()).Build()).AsBool()
}

func (r *Redis) TTL(ctx context.Context, key string) (time.Duration, error) {
	return timeLeft(r.Client.Do(ctx, r.Client.B().Pttl().Key(key).Build()))
}

// timeLeft turns Redis's milliseconds into a duration.
func timeLeft(res rueidis.RedisResult) (time.Duration, error) {
	ms, err := res.AsInt64()
	return max(0, time.Duration(ms)*time.Millisecond), err // -2 = absent
}

func (r *Redis) Incr(ctx context.Context, key string, ttl time.Duration) (int64, error) {
	defer r.Link.changed(key)
	return incr.Exec(ctx, r.Client, []string{key}, []string{strconv.FormatInt(ttl.Milliseconds(), 10)}).AsInt64()
}

func (r *Redis) Add(ctx context.Context, key string, ttl time.Duration, members ...string) error {
	defer r.Link.changed(key)
	return firstError(r.Client.DoMulti(ctx,
		r.Client.B().Sadd().Key(key).Member(members...).Build(),
		r.Client.B().Pexpire().Key(key).Milliseconds(ttl.Milliseconds()).Build()))
}

func (r *Redis) Members(ctx context.Context, key string) ([]string, error) {
	return r.Client.Do(ctx, r.Client.B().Smembers().Key(key).Build()).AsStrSlice()
}

func (r *Redis) Remove(ctx context.Context, key string, members ...string) error {
	defer r.Link.changed(key)
	return r.Client.Do(ctx, r.Client.B().Srem().Key(key).Member(members...).Build()).Error()
}

func (r *Redis) Lease(key string) Lease { return r.Link.lease(key) }

func firstError(results []rueidis.RedisResult) error {
	for _, res := range results {
		if err := res.Error(); err != nil {
			return err
		}
	}
	return nil
}
