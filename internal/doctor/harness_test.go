package doctor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"tandian/internal/kit/store"
)

// own are servers of this test binary, which may be set up wrongly.
var own struct {
	sync.Once
	dir, dsn, root, redis string
	err                   error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if own.dir != "" {
		if out, err := services("down"); err != nil {
			fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
			code = 1
		}
	}
	os.Exit(code)
}

func services(args ...string) (string, error) {
	cmd := exec.Command(filepath.Join("..", "..", "scripts", "services"), args...)
	cmd.Env = append(os.Environ(), "TANDIAN_SERVICES="+own.dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("services %v: %w\n%s", args, err, out)
	}
	return string(out), err
}

func private(t *testing.T) {
	t.Helper()
	if os.Getenv("TANDIAN_MYSQL_DSN") == "" {
		t.Skip(`no stores; run: eval "$(scripts/services up)"`)
	}
	own.Do(func() {
		if own.dir, own.err = os.MkdirTemp("", "tandian-doctor"); own.err != nil {
			return
		}
		var out string
		out, own.err = services("up", "redis", "mariadb")
		first := func(pattern string) string {
			if m := regexp.MustCompile(pattern).FindStringSubmatch(out); m != nil {
				return m[1]
			}
			return ""
		}
		own.root = "root@unix(" + filepath.Join(own.dir, "mariadb", "socket") + ")/tandian"
		own.dsn, own.redis = first(`MYSQL_DSN='(\S+)'`), first(`REDIS_ADDR=(\S+)`)
	})
	if own.err != nil {
		t.Fatal(own.err)
	}
}

// operator is the all-powerful connection to the private SQL server.
func operator(t *testing.T) *store.DB {
	t.Helper()
	private(t)
	db, err := store.OpenMySQL(t.Context(), own.root, store.Pool{MaxOpen: 1, MaxIdle: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func sqlDo(t *testing.T, db *store.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.Write.DB.ExecContext(context.WithoutCancel(t.Context()), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func redisDo(t *testing.T, o rueidis.ClientOption, commands ...string) {
	t.Helper()
	o.DisableCache = true
	client, err := rueidis.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, c := range commands {
		if err := client.Do(context.WithoutCancel(t.Context()), client.B().Arbitrary(strings.Fields(c)...).Build()).Error(); err != nil {
			t.Fatalf("%s: %v", c, err)
		}
	}
}

// want is a finding that must be there; Found and Remedy need only contain the text.
type want struct {
	check         string
	status        Status
	found, remedy string
	passing       bool
}

// secrets are what no finding of any test may show.
var secrets = []string{"pa55word", "sesame-"}

// expect runs an examination and compares what it finds wrong with what must be found wrong: nothing else may be.
func expect(t *testing.T, e Examination, wants ...want) {
	t.Helper()
	findings := Examine(t.Context(), 10*time.Second, e)
	wrong := 0
	for _, f := range findings {
		t.Logf("%-7s %s", f.Status, f)
		for _, s := range secrets {
			if strings.Contains(f.String(), s) {
				t.Errorf("a secret is shown: %s", f)
			}
		}
		if strings.Contains(f.String(), "\n") || f.Found == "" || (f.Remedy == "") != (f.Status == OK) {
			t.Errorf("not one line with a remedy: %+v", f)
		}
		if f.Status == OK {
			continue
		}
		wrong++
		for _, w := range wants {
			if f.Check == w.check && f.Status == w.status && f.Passing == w.passing && strings.Contains(f.Found, w.found) && strings.Contains(f.Remedy, w.remedy) {
				wrong--
			}
		}
	}
	if wrong != 0 || len(findings) == 0 {
		t.Errorf("want exactly %+v", wants)
	}
	for _, w := range wants {
		seen := false
		for _, f := range findings {
			seen = seen || f.Check == w.check && f.Status == w.status
		}
		if !seen {
			t.Errorf("not found: %+v", w)
		}
	}
}

// closedPort is a port where nobody listens, and silent one where nobody answers.
const closedPort = "127.0.0.1:1"

func now() time.Time { return time.Now() }

func ahead(d time.Duration) func() time.Time {
	return func() time.Time { return time.Now().Add(d) }
}
