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

// P7: an account that redeems for a shop is made with the shop, which has to be there.
func TestAdminCreateClerk(t *testing.T) {
	env := embedded(t)
	create := func(args ...string) (code int, stderr string) {
		t.Helper()
		code, _, stderr = command(t, env, append([]string{"admin", "create", "--phone", "13900000001"}, args...)...)
		return code, stderr
	}
	for _, tc := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--role", "clerk"}, exitUsage, "--shop"},
		{[]string{"--shop", "1"}, exitUsage, "--role clerk"},
		{[]string{"--role", "clerk", "--shop", "first"}, exitUsage, "first"},
		{[]string{"--role", "clerk", "--shop", "1"}, exitFailed, "shop.not_found"},
	} {
		if code, stderr := create(tc.args...); code != tc.code || !strings.Contains(stderr, tc.says) {
			t.Errorf("%v: exit %d, %s", tc.args, code, stderr)
		}
	}
	if code, stdout, stderr := command(t, env, "seed"); code != exitDone {
		t.Fatal(code, stdout, stderr)
	}
	for range 2 {
		if code, stderr := create("--role", "clerk", "--shop", "2"); code != exitDone {
			t.Fatal(code, stderr)
		}
	}
}
