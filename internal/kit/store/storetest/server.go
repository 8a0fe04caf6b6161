package storetest

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// Server is a MariaDB of the test's own, which may be killed and misconfigured.
type Server struct {
	DSN string
	dir string
}

// Private starts a server for the test and its subtests and makes it the one that MySQL opens databases on. It takes
// some seconds.
func Private(t *testing.T) *Server {
	t.Helper()
	if os.Getenv("TANDIAN_MYSQL_DSN") == "" {
		t.Skip(`no TANDIAN_MYSQL_DSN; run: eval "$(scripts/services up)"`)
	}
	dir, err := os.MkdirTemp("", "tandian-mariadb") // short: the name of a socket has a limit
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{dir: dir}
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(s.dir, "mariadb.log"))
			t.Logf("the server's log ends:\n%s", log[max(0, len(log)-4<<10):])
		}
		s.Do(t, "down")
	})
	s.DSN = regexp.MustCompile(`TANDIAN_MYSQL_DSN='(.*)'`).FindStringSubmatch(s.Do(t, "up", "mariadb"))[1]
	t.Setenv("TANDIAN_MYSQL_DSN", s.DSN)
	return s
}

// Do gives a command of scripts/services, such as "kill", "mariadb", and returns its output.
func (s *Server) Do(t testing.TB, args ...string) string {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(root, "scripts", "services"), args...)
	cmd.Env = append(os.Environ(), "TANDIAN_SERVICES="+s.dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("services %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// Admin connects as root.
func (s *Server) Admin(t testing.TB) *sql.DB {
	t.Helper()
	cfg, err := mysql.ParseDSN(s.DSN)
	if err != nil {
		t.Fatal(err)
	}
	cfg.User, cfg.Passwd, cfg.DBName = "root", "", ""
	db, err := sql.Open("mysql", cfg.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, statErr := os.Stat(filepath.Join(dir, "go.mod")); statErr == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above")
		}
		dir = parent
	}
	return "", fmt.Errorf("working directory: %w", err)
}
