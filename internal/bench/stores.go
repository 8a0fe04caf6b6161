package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/rueidis"
)

// Stores are the servers of the production mode.
type Stores struct {
	MySQLDSN, RedisAddr, RabbitMQURL string

	Private bool  // started for tests and trials: they may be emptied
	PIDs    []int // their processes, whose CPU time belongs to an order
}

// stores are made ready for a run: the database is its own, Redis and the queues are empty. The servers under test find
// nothing of another database there, whose sales have the same numbers.
type stores struct {
	dsn    string // of the run's own database
	admin  *database
	name   string // of that database
	redis  rueidis.Client
	broker *broker  // nil when there is no RabbitMQ
	names  []string // with versions
}

// inUseWait is how long a server that has just ended may still seem to consume.
const inUseWait = 5 * time.Second

// openStores makes a database for the run and empties the rest. Unless that is allowed, it must be empty already.
// Nobody else may be consuming.
func openStores(ctx context.Context, o Stores, wipe bool) (s *stores, err error) {
	s = &stores{}
	defer func() {
		if err != nil {
			s.disconnect()
		}
	}()
	if o.RabbitMQURL != "" {
		if s.broker, err = openBroker(o.RabbitMQURL); err != nil {
			return nil, fmt.Errorf("TANDIAN_RABBITMQ_URL: %w", err)
		}
	}
	if s.redis, err = rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{o.RedisAddr}, DisableCache: true}); err != nil {
		return nil, fmt.Errorf("TANDIAN_REDIS_ADDR: %w", err)
	}
	if err := s.checkUnused(ctx, wipe || o.Private); err != nil {
		return nil, err
	}
	if err := s.empty(ctx); err != nil {
		return nil, err
	}
	if err := s.makeDatabase(ctx, o.MySQLDSN); err != nil {
		return nil, fmt.Errorf("TANDIAN_MYSQL_DSN: %w", err)
	}
	return s, s.readVersions(ctx)
}

// checkUnused refuses stores that somebody else uses: for good when a server consumes, else unless they may be wiped.
func (s *stores) checkUnused(ctx context.Context, wipe bool) error {
	wait, cancel := context.WithTimeout(ctx, inUseWait)
	defer cancel()
	messages, consumers, err := s.broker.depth()
	for ; err == nil && consumers > 0; messages, consumers, err = s.broker.depth() {
		if sleep(wait, 100*time.Millisecond) != nil {
			return cmp.Or(ctx.Err(), errors.New("another server consumes from RabbitMQ's queues; stop it, or give bench stores of its own: scripts/services up"))
		}
	}
	if err != nil {
		return err
	}
	keys, err := s.redis.Do(ctx, s.redis.B().Dbsize().Build()).AsInt64()
	if err == nil && keys+int64(messages) > 0 && !wipe {
		err = &UsageError{fmt.Errorf("there are %d keys in Redis and %d messages in the queues, and bench must empty both: give it stores of its own (scripts/services up), or allow it with --wipe", keys, messages)}
	}
	return err
}

func (s *stores) empty(ctx context.Context) error {
	return errors.Join(s.redis.Do(ctx, s.redis.B().Flushdb().Build()).Error(), s.broker.purge())
}

// makeDatabase creates a database beside the one named, in the place of one that a killed run has left.
func (s *stores) makeDatabase(ctx context.Context, dsn string) error {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return err
	}
	s.name = cfg.DBName + "_bench"
	if !regexp.MustCompile(`^\w+$`).MatchString(s.name) {
		return fmt.Errorf("can't name a database after %q", cfg.DBName)
	}
	cfg.DBName = ""
	if s.admin, err = openMySQL(cfg.FormatDSN()); err != nil {
		return err
	}
	for _, statement := range []string{"DROP DATABASE IF EXISTS ", "CREATE DATABASE "} {
		if _, err := s.admin.ExecContext(ctx, statement+s.name); err != nil {
			return err
		}
	}
	cfg.DBName = s.name
	s.dsn = cfg.FormatDSN()
	return nil
}

func (s *stores) readVersions(ctx context.Context) error {
	var sql string
	if err := s.admin.QueryRowContext(ctx, "SELECT VERSION()").Scan(&sql); err != nil {
		return err
	}
	info, err := s.redis.Do(ctx, s.redis.B().Info().Section("server").Build()).ToString()
	if err != nil {
		return err
	}
	redis := regexp.MustCompile(`redis_version:(\S+)`).FindStringSubmatch(info)
	if redis == nil {
		return errors.New("the version of Redis is not told")
	}
	s.names = []string{"MySQL " + sql, "Redis " + redis[1]}
	if s.broker != nil {
		s.names = append(s.names, s.broker.name)
	}
	return nil
}

// environment points a server at the stores, and away from all stores if s is nil.
func (s *stores) environment() []string {
	if s == nil { // an empty variable counts as not set
		return []string{"TANDIAN_MYSQL_DSN=", "TANDIAN_REDIS_ADDR=", "TANDIAN_RABBITMQ_URL=", "TANDIAN_BROKER="}
	}
	return []string{"TANDIAN_MYSQL_DSN=" + s.dsn}
}

// close leaves the stores as empty as they were found and drops the database. The servers must have ended.
func (s *stores) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	_, err := s.admin.ExecContext(ctx, "DROP DATABASE IF EXISTS "+s.name)
	err = errors.Join(err, s.empty(ctx))
	s.disconnect()
	return err
}

func (s *stores) disconnect() {
	s.broker.close()
	if s.redis != nil {
		s.redis.Close()
	}
	if s.admin != nil {
		_ = s.admin.Close() // nothing is pending on it
	}
}
