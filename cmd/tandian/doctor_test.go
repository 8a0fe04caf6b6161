package main

import (
	"encoding/json"
	"flag"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tandian/internal/doctor"
)

var update = flag.Bool("update", false, "write golden files anew")

// On a folder that isn't there yet, and on one that a server has used.
func TestDoctorEmbedded(t *testing.T) {
	env := embedded(t)
	dir := env["TANDIAN_DATA_DIR"]
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	doctor := func() string {
		t.Helper()
		code, stdout, stderr := command(t, env, "doctor")
		if code != exitDone || stderr != "" {
			t.Fatal(code, stdout, stderr)
		}
		stdout = strings.ReplaceAll(stdout, dir, "DIR")
		stdout = regexp.MustCompile(`\d+ [kMG]B free`).ReplaceAllString(stdout, "N GB free")
		stdout = regexp.MustCompile(`SQLite [\d.]+`).ReplaceAllString(stdout, "SQLite N")
		stdout = regexp.MustCompile(`index-[\w-]+\.js`).ReplaceAllString(stdout, "index-HASH.js")
		return regexp.MustCompile(`\d+ tables at version \d+`).ReplaceAllString(stdout, "N tables at version N")
	}
	got := doctor()
	if _, err := os.Stat(dir); err == nil {
		t.Error("doctor must not make the folder")
	}
	if code, _, stderr := command(t, env, "migrate", "up"); code != exitDone {
		t.Fatal(stderr)
	}
	got += "\n" + doctor()
	file := filepath.Join("testdata", "doctor_embedded.golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}

// Whatever is wrong, no secret is shown, and the exit code is 3.
func TestDoctorShowsNoSecret(t *testing.T) {
	bad := embedded(t)
	for name, value := range map[string]string{"MYSQL_DSN": "tandian:pa55word@tcp(127.0.0.1:1)/tandian", "REDIS_ADDR": "127.0.0.1:1", "REDIS_PASSWORD": "pa55word",
		"RABBITMQ_URL": "amqp://tandian:pa55word@127.0.0.1:1/", "MESSAGE_SECRET": "pa55wordpa55word", "DEMO": "true"} {
		bad["TANDIAN_"+name] = value
	}
	worse := embedded(t)
	for name, value := range map[string]string{"MYSQL_DSN": "tandian:pa55word", "REDIS_ADDR": "127.0.0.1:1", "REDIS_PASSWORD": "pa55word",
		"RABBITMQ_URL": "amqp://tandian:pa55word@host:port/", "MESSAGE_SECRET": "pa55word", "WRITERS": "many"} {
		worse["TANDIAN_"+name] = value
	}
	for name, tt := range map[string]struct {
		env  map[string]string
		want []string
	}{
		"stores away":     {bad, []string{"database", "redis", "rabbitmq", "message secret", "demo data"}},
		"settings broken": {worse, []string{"settings", "database", "redis", "rabbitmq"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := command(t, tt.env, "doctor")
			if code != exitViolation || !strings.Contains(stderr, " checks failed") {
				t.Error(code, stderr)
			}
			jsonCode, asJSON, _ := command(t, tt.env, "doctor", "--json")
			var findings []doctor.Finding
			if err := json.Unmarshal([]byte(asJSON), &findings); err != nil || jsonCode != exitViolation {
				t.Fatal(jsonCode, err)
			}
			wrong := map[string]bool{}
			for _, f := range findings {
				wrong[f.Check] = wrong[f.Check] || f.Status != doctor.OK
			}
			for _, check := range tt.want {
				if !wrong[check] {
					t.Errorf("nothing wrong with %s:\n%s", check, stdout)
				}
			}
			if n := strings.Count(stdout, "\n"); n != len(findings) {
				t.Errorf("%d lines for %d findings:\n%s", n, len(findings), stdout)
			}
			if strings.Contains(stdout+stderr+asJSON, "pa55word") {
				t.Errorf("a secret is shown:\n%s%s", stdout, stderr)
			}
		})
	}
}

func TestDoctorSeesATakenPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // answers nobody
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			_ = c.Close()
		}
	}()
	env := embedded(t)
	env["TANDIAN_ADMIN_ADDR"] = l.Addr().String()
	code, stdout, _ := command(t, env, "doctor")
	if code != exitViolation || !regexp.MustCompile(`(?m)^failed +port admin-addr +`+l.Addr().String()+` is in use by pid \d+ \(.+\)  → stop it, or try --admin-addr 127\.0\.0\.1:\d+$`).MatchString(stdout) {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
}
