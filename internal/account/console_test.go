package account_test

import (
	"fmt"
	"testing"

	"tandian/internal/kit/identity"
)

// A4, A6: an operator ends a user's sessions, refuses him and lets him in again; nobody else may.
func TestKickAndBanByOperator(t *testing.T) {
	w := newTown(t)
	operator, operatorID := w.signIn("13800000001")
	token, user := w.signIn(alice)
	post := func(who, verb string, id any) answer {
		t.Helper()
		return w.do("POST", fmt.Sprintf("/console/users/%v/%s", id, verb), "", "Authorization", who)
	}
	for _, verb := range []string{"kick", "ban", "unban"} {
		post("", verb, user).want(t, 401, "auth.required")
		post(token, verb, operatorID).want(t, 403, "auth.forbidden")
	}
	ok(t, w.SetRoles(t.Context(), operatorID, identity.Operator))
	post(operator, "kick", 999999).want(t, 404, "user.not_found")

	post(operator, "kick", user).want(t, 204, "")
	w.me(token).want(t, 401, "auth.required")

	var err error
	token, _, err = w.Issue(t.Context(), user, "test", "192.0.2.1")
	ok(t, err)
	w.me(token).want(t, 200, "")
	post(operator, "ban", user).want(t, 204, "")
	w.me(token).want(t, 401, "auth.required")
	token, _, err = w.Issue(t.Context(), user, "test", "192.0.2.1")
	ok(t, err)
	w.me(token).want(t, 401, "auth.required")
	post(operator, "unban", user).want(t, 204, "")
	w.me(token).want(t, 200, "")
	w.me(operator).want(t, 200, "")

	n, err := w.db.Read.NewSelect().Table("audit_log").Where("actor_id = ? AND subject = ?", operatorID, "user:"+user.String()).Count(t.Context())
	if n != 3 || err != nil {
		t.Errorf("%d audit lines, want 3 (%v)", n, err)
	}
}

// A6: an operator gives and takes roles, and they bite with the next request; nobody else may.
func TestRolesByOperator(t *testing.T) {
	w := newTown(t)
	operator, operatorID := w.signIn("13800000001")
	token, user := w.signIn(alice)
	ok(t, w.SetRoles(t.Context(), operatorID, identity.Operator))
	post := func(who string, id any, body string) answer {
		t.Helper()
		return w.do("POST", fmt.Sprintf("/console/users/%v/roles", id), body, "Authorization", who)
	}
	post("", user, `{"roles":["operator"]}`).want(t, 401, "auth.required")
	post(token, user, `{"roles":["operator"]}`).want(t, 403, "auth.forbidden")
	post(operator, 999999, `{"roles":["operator"]}`).want(t, 404, "user.not_found")
	for _, bad := range []string{`{}`, `{"roles":null}`, `{"roles":"operator"}`, `{"roles":["emperor"]}`, `{"roles":["Operator"]}`, `{"roles":[""]}`,
		`{"roles":["clerk","clerk","clerk","clerk","clerk","clerk"]}`} {
		post(operator, user, bad).want(t, 422, "request.invalid")
	}
	for body, want := range map[string]string{
		`{"roles":["merchant","readonly"]}`: "[shopper merchant readonly]",
		`{"roles":["shopper"]}`:             "[shopper]",
		`{"roles":["clerk","clerk"]}`:       "[shopper clerk]",
		`{"roles":[]}`:                      "[shopper]",
	} {
		post(operator, user, body).want(t, 204, "")
		if got := fmt.Sprint(w.me(token).want(t, 200, "").body["roles"]); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	var n int
	ok(t, w.db.Read.QueryRow(`SELECT count(*) FROM audit_log WHERE actor_id = ? AND action = 'user.roles' AND subject = ? AND detail LIKE '{"roles":[%]}'`,
		operatorID, "user:"+user.String()).Scan(&n))
	if n != 4 {
		t.Errorf("%d audit lines, want 4", n)
	}
}
