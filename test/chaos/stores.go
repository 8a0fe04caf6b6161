package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// stores are Redis, MariaDB and RabbitMQ of this run's own, which may be killed and emptied.
type stores struct {
	root, dir          string
	dsn, redis, rabbit string
}

// services runs scripts/services to its end.
func (s *stores) services(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(s.root, "scripts", "services"), args...)
	cmd.Env = append(bareEnv(), "TANDIAN_SERVICES="+s.dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("services %v: %w\n%s", args, err, out)
	}
	return string(out), err
}

func (s *stores) do(ctx context.Context, args ...string) error {
	_, err := s.services(ctx, args...)
	return err
}

// up starts those that don't run.
func (s *stores) up(ctx context.Context, names ...string) error {
	out, err := s.services(ctx, append([]string{"up"}, names...)...)
	exported := func(name string) string {
		if m := regexp.MustCompile(`export ` + name + `='?([^'\n]+)`).FindStringSubmatch(out); m != nil {
			return m[1]
		}
		return ""
	}
	s.dsn, s.redis, s.rabbit = exported("TANDIAN_MYSQL_DSN"), exported("TANDIAN_REDIS_ADDR"), exported("TANDIAN_RABBITMQ_URL")
	return err
}

// down stops all of them and removes what they hold.
func (s *stores) down(ctx context.Context) error { return s.do(ctx, "down") }

// rootDSN is MariaDB by its administrator, who may write when others may not.
func (s *stores) rootDSN() string {
	return "root@unix(" + filepath.Join(s.dir, mariadb, "socket") + ")/"
}

// findRoot is the folder of the module that the working directory belongs to.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("run it inside the module")
		}
		dir = parent
	}
}

// build compiles the program.
func build(ctx context.Context, root, path, tags string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-tags", tags, "-o", path, "tandian/cmd/tandian")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}
