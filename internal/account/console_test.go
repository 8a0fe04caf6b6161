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
