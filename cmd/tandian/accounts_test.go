package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestMigrate(t *testing.T) {
	env := embedded(t)
	applied := func() (list []struct {
		Version int
		Name    string
		Applied bool
	}) {
		t.Helper()
		code, stdout, stderr := command(t, env, "migrate", "status", "--json")
		if err := json.Unmarshal([]byte(stdout), &list); err != nil || code != exitDone || len(list) == 0 {
			t.Fatal(code, stdout, stderr, err)
		}
		return list
	}
	if applied()[0].Applied {
		t.Fatal("a new folder has no tables")
	}
	if code, stdout, stderr := command(t, env, "migrate", "up"); code != exitDone || !strings.HasSuffix(stdout, " migrations run\n") || !applied()[0].Applied {
		t.Fatal(code, stdout, stderr)
	}
	if code, _, stderr := command(t, env, "migrate", "down"); code != exitUsage || !strings.Contains(stderr, "--yes") || !applied()[0].Applied {
		t.Fatal("down without --yes must do nothing", code, stderr)
	}
	last := len(applied()) - 1
	if code, _, stderr := command(t, env, "migrate", "down", "--yes"); code != exitDone || applied()[last].Applied {
		t.Fatal(code, stderr)
	}
}

func TestAdminCreate(t *testing.T) {
	env := embedded(t)
	code, stdout, stderr := command(t, env, "admin", "create", "--phone", "13900000001")
	_, password, ok := strings.Cut(strings.TrimSpace(stdout), "shown only here: ")
	if code != exitDone || !ok || len(password) < 20 || strings.Contains(stderr, password) {
		t.Fatal(code, stdout, stderr)
	}
	if code, _, stderr := command(t, env, "admin", "create", "--phone", "139"); code != exitFailed || !strings.Contains(stderr, "auth.phone_invalid") {
		t.Error(code, stderr)
	}
	if code, _, stderr := command(t, env, "admin", "create", "--phone", "13900000001", "--role", "king"); code != exitUsage || !strings.Contains(stderr, "king") {
		t.Error(code, stderr)
	}
}
