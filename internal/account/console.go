package account

import (
	"context"
	"net/http"

	"tandian/internal/kit/api"
	"tandian/internal/kit/audit"
	"tandian/internal/kit/errs"
	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/limit"
)

type (
	rolesBody struct {
		Roles []identity.Role `json:"roles" nullable:"false" maxItems:"5" enum:"shopper,merchant,clerk,operator,readonly" doc:"All the user shall have; shopper is always among them"`
	}
	rolesIn struct {
		ID   id.Param `path:"id"`
		Body rolesBody
	}
)

// consoleRoutes registers what operators may do to a user (A4, A6).
func (s *Service) consoleRoutes(a *api.API) {
	for _, r := range []struct {
		verb, summary string
		do            func(ctx context.Context, userID id.ID) error
	}{
		{"kick", "End all sessions of a user", func(ctx context.Context, userID id.ID) error { _, err := s.Kick(ctx, userID); return err }},
		{"ban", "Refuse a user from now on and end his sessions", s.Ban},
		{"unban", "Let a user sign in again", s.Unban},
	} {
		api.Handle(a, api.Route{Method: http.MethodPost, Path: "/console/users/{id}/" + r.verb, ID: r.verb + "-user", Tag: "console", Summary: r.summary,
			Private: true, Limit: limit.Rule{User: limit.PerSecond(10)}, Errors: []*errs.Error{ErrUserNotFound, identity.ErrForbidden, identity.ErrUnknown}},
			func(ctx context.Context, in *userIn) (*empty, error) {
				return nil, s.byOperator(ctx, r.verb, in.ID.ID, nil, r.do)
			})
	}
	api.Handle(a, api.Route{Method: http.MethodPost, Path: "/console/users/{id}/roles", ID: "set-user-roles", Tag: "console", Summary: "Replace the roles of a user",
		Private: true, Limit: limit.Rule{User: limit.PerSecond(10)}, Errors: []*errs.Error{api.ErrInvalid, ErrUserNotFound, identity.ErrForbidden, identity.ErrUnknown}}, s.setRoles)
}

func (s *Service) setRoles(ctx context.Context, in *rolesIn) (*empty, error) {
	return nil, s.byOperator(ctx, "roles", in.ID.ID, in.Body, func(ctx context.Context, userID id.ID) error {
		return s.SetRoles(ctx, userID, in.Body.Roles...)
	})
}

// byOperator does something to a user if the caller is an operator. The audit line comes first: sessions are not rows,
// so it can't share a transaction with their end, and it must not be missing.
func (s *Service) byOperator(ctx context.Context, verb string, userID id.ID, detail any, do func(context.Context, id.ID) error) error {
	operator, err := identity.RequireRole(ctx, identity.Operator)
	if err != nil {
		return err
	}
	if _, err := findUser(ctx, s.o.DB.Read, userID); err != nil {
		return err
	}
	err = audit.Write(ctx, s.o.DB.Write, audit.Entry{At: s.o.Now(), Actor: operator.ID, Action: "user." + verb, Subject: "user:" + userID.String(),
		Detail: detail})
	if err != nil {
		return err
	}
	return do(ctx, userID)
}
