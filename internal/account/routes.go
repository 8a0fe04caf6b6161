package account

import (
	"context"
	"net/http"
	"time"

	"tandian/internal/kit/api"
	"tandian/internal/kit/errs"
	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/limit"
)

// PublicUser is what everybody may see of a user.
type PublicUser struct {
	ID       id.ID  `json:"id"`
	Nickname string `json:"nickname"`
	Avatar   string `json:"avatar" doc:"A path on this site; empty = none"`
}

// SignedInUser is what a client that has just signed in needs to know.
type SignedInUser struct {
	PublicUser
	Roles []identity.Role `json:"roles" nullable:"false" enum:"shopper,merchant,clerk,operator,readonly"`
}

// Me is what a user sees of himself.
type Me struct {
	SignedInUser
	Phone       string  `json:"phone" doc:"Masked" example:"138****0001"`
	HasPassword bool    `json:"hasPassword"`
	ShopIDs     []id.ID `json:"shopIds" nullable:"false" doc:"Shops the user owns"`
}

// SignedIn is the answer of a sign-in.
type SignedIn struct {
	Token     string       `json:"token" doc:"Send it as Authorization, with or without the word Bearer"`
	ExpiresAt time.Time    `json:"expiresAt" doc:"The latest end; the session ends earlier after 30 minutes (by default) without a request"`
	User      SignedInUser `json:"user"`
}

// SessionItem is a session in its owner's list.
type SessionItem struct {
	ID         string    `json:"id"`
	CreatedAt  time.Time `json:"createdAt"`
	LastSeenAt time.Time `json:"lastSeenAt" doc:"Exact to a few minutes"`
	UserAgent  string    `json:"userAgent"`
	IP         string    `json:"ip"`
	Current    bool      `json:"current" doc:"The session of this request"`
}

type (
	empty struct{}

	phoneBody struct {
		Phone string `json:"phone" maxLength:"32" doc:"A mainland mobile number" example:"13800000004"`
	}
	sendCodeIn struct{ Body phoneBody }

	signInBody struct {
		Phone    string `json:"phone" maxLength:"32" example:"13800000004"`
		Code     string `json:"code,omitempty" maxLength:"16" doc:"Either this"`
		Password string `json:"password,omitempty" maxLength:"256" doc:"or this"`
	}
	signInIn struct {
		UserAgent string `header:"User-Agent"`
		Body      signInBody
	}
	signInOut struct {
		SetCookie string `header:"Set-Cookie"`
		Body      SignedIn
	}
	signOutOut struct {
		SetCookie string `header:"Set-Cookie"`
	}

	profileBody struct {
		Nickname *string `json:"nickname,omitempty" doc:"1 to 24 characters on one line"`
		Avatar   *string `json:"avatar,omitempty" doc:"A path below /pictures/ or /uploads/; empty = none"`
	}
	profileIn struct{ Body profileBody }
	meOut     struct{ Body Me }

	passwordBody struct {
		Password        string `json:"password" maxLength:"256" doc:"8 to 64 characters"`
		CurrentPassword string `json:"currentPassword,omitempty" maxLength:"256" doc:"Needed if there is one"`
	}
	passwordIn struct{ Body passwordBody }

	sessionIn struct {
		ID string `path:"id" pattern:"^[0-9a-f]{64}$"`
	}
	sessionsOut struct{ Body api.List[SessionItem] }

	userIn struct {
		ID id.Param `path:"id"`
	}
	userOut struct{ Body PublicUser }

	codeIn struct {
		Phone string `query:"phone" maxLength:"32"`
	}
	codeBody struct {
		Phone  string    `json:"phone"`
		Code   string    `json:"code"`
		SentAt time.Time `json:"sentAt"`
	}
	codeOut struct{ Body codeBody }

	testUsersBody struct {
		Count int `json:"count" minimum:"1" maximum:"20000"`
	}
	testUsersIn struct {
		UserAgent string `header:"User-Agent"`
		Body      testUsersBody
	}
	tokensBody struct {
		Tokens []string `json:"tokens" nullable:"false"`
	}
	testUsersOut struct{ Body tokensBody }
)

// Routes registers the operations of this package.
func (s *Service) Routes(a *api.API) {
	s.signInRoutes(a)
	s.meRoutes(a)
	api.Handle(a, api.Route{Method: "GET", Path: "/users/{id}", ID: "get-user", Tag: "users", Summary: "What everybody may see of a user",
		Limit: limit.Rule{IP: limit.PerSecond(100)}, Errors: []*errs.Error{ErrUserNotFound}}, s.getUser)
	s.consoleRoutes(a)
	s.demoRoutes(a)
}

func (s *Service) signInRoutes(a *api.API) {
	api.Handle(a, api.Route{Method: "POST", Path: "/auth/codes", ID: "send-code", Tag: "sign-in", Summary: "Send a sign-in code to a phone", Status: http.StatusNoContent,
		Limit:  limit.Rule{IP: limit.PerMinute(30), Global: limit.PerSecond(200)},
		Errors: []*errs.Error{ErrPhoneInvalid, ErrCodeTooOften, ErrCodeNotSent, identity.ErrUnknown}}, s.sendCode)
	api.Handle(a, api.Route{Method: "POST", Path: "/auth/sessions", ID: "sign-in", Tag: "sign-in", Summary: "Sign in with a code or a password; the first time creates the user",
		Status: http.StatusCreated, Limit: limit.Rule{IP: limit.PerMinute(60)},
		Errors: []*errs.Error{ErrPhoneInvalid, ErrCodeWrong, ErrPasswordWrong, ErrTooManyTries, ErrBanned, ErrBusy, identity.ErrUnknown}}, s.signIn)
	api.Handle(a, api.Route{Method: "DELETE", Path: "/auth/sessions/current", ID: "sign-out", Tag: "sign-in", Summary: "Sign out; without a session it does nothing",
		Status: http.StatusNoContent, Limit: limit.Rule{IP: limit.PerMinute(120)}, Errors: []*errs.Error{identity.ErrUnknown}}, s.signOut)
}

func (s *Service) meRoutes(a *api.API) {
	api.Handle(a, api.Route{Method: "GET", Path: "/me", ID: "get-me", Tag: "me", Summary: "Who I am", Private: true,
		Limit: limit.Rule{User: limit.PerSecond(20)}}, s.getMe)
	api.Handle(a, api.Route{Method: "PATCH", Path: "/me", ID: "update-me", Tag: "me", Summary: "Change nickname or avatar", Private: true,
		Limit: limit.Rule{User: limit.PerMinute(30)}, Errors: []*errs.Error{api.ErrInvalid}}, s.updateMe)
	api.Handle(a, api.Route{Method: "PUT", Path: "/me/password", ID: "set-password", Tag: "me", Summary: "Set or change the password; all other sessions end", Private: true,
		Status: http.StatusNoContent, Limit: limit.Rule{User: limit.PerMinute(10)},
		Errors: []*errs.Error{api.ErrInvalid, ErrCurrentPassword, ErrTooManyTries, ErrBusy, identity.ErrUnknown}}, s.setPassword)
	api.Handle(a, api.Route{Method: "GET", Path: "/me/sessions", ID: "list-sessions", Tag: "me", Summary: "Where I am signed in", Private: true,
		Limit: limit.Rule{User: limit.PerMinute(60)}, Errors: []*errs.Error{identity.ErrUnknown}}, s.listSessions)
	api.Handle(a, api.Route{Method: "DELETE", Path: "/me/sessions", ID: "end-other-sessions", Tag: "me", Summary: "End all my sessions but this one", Private: true,
		Status: http.StatusNoContent, Limit: limit.Rule{User: limit.PerMinute(30)}, Errors: []*errs.Error{identity.ErrUnknown}}, s.endOtherSessions)
	api.Handle(a, api.Route{Method: "DELETE", Path: "/me/sessions/{id}", ID: "end-session", Tag: "me", Summary: "End one of my sessions", Private: true,
		Status: http.StatusNoContent, Limit: limit.Rule{User: limit.PerMinute(60)}, Errors: []*errs.Error{ErrSessionNotFound, identity.ErrUnknown}}, s.endSession)
}

// demoRoutes are always registered, so that the OpenAPI document is the same everywhere; switched off they answer
// like a path that isn't there.
func (s *Service) demoRoutes(a *api.API) {
	api.Handle(a, api.Route{Method: "GET", Path: "/dev/codes", ID: "get-demo-code", Tag: "demo", Summary: "The last code sent to a phone; only with demo data",
		Limit: limit.Rule{IP: limit.PerMinute(240)}, Errors: []*errs.Error{api.ErrNoSuchPath, ErrNoCode}}, s.getDemoCode)
	api.Handle(a, api.Route{Method: "POST", Path: "/console/test-users", ID: "create-test-users", Tag: "demo",
		Summary: "Create and sign in users for a load test; only with demo data or if allowed at start",
		Limit:   limit.Rule{IP: limit.PerMinute(30)}, Errors: []*errs.Error{api.ErrNoSuchPath}}, s.createTestUsers)
}

func (s *Service) sendCode(ctx context.Context, in *sendCodeIn) (*empty, error) {
	return nil, s.SendCode(ctx, in.Body.Phone, api.RequestOf(ctx).IP)
}

func (s *Service) signIn(ctx context.Context, in *signInIn) (*signInOut, error) {
	if (in.Body.Code == "") == (in.Body.Password == "") {
		return nil, api.Faults(api.Invalid{Location: "body", Message: "give either code or password"})
	}
	from := Device{UserAgent: in.UserAgent, IP: api.RequestOf(ctx).IP}
	var done *SignIn
	var err error
	if in.Body.Code != "" {
		done, err = s.SignInWithCode(ctx, in.Body.Phone, in.Body.Code, from)
	} else {
		done, err = s.SignInWithPassword(ctx, in.Body.Phone, in.Body.Password, from)
	}
	if err != nil {
		return nil, err
	}
	return &signInOut{SetCookie: s.cookie(done.Token, done.EndsAt.Sub(s.o.Now())),
		Body: SignedIn{Token: done.Token, ExpiresAt: api.Wire(done.EndsAt), User: viewOf(&done.User)}}, nil
}

func (s *Service) signOut(ctx context.Context, _ *empty) (*signOutOut, error) {
	caller := identity.From(ctx)
	if caller.Unknown {
		return nil, identity.ErrUnknown
	}
	if caller.User != nil {
		if err := s.end(ctx, caller.User.ID, caller.Session); err != nil {
			return nil, err
		}
	}
	return &signOutOut{SetCookie: s.cookie("", 0)}, nil
}

// cookie carries the token for life; 0 takes the cookie back.
func (s *Service) cookie(token string, life time.Duration) string {
	c := http.Cookie{Name: cookieName, Value: token, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: s.o.SecureCookie,
		MaxAge: int(life / time.Second)}
	if c.MaxAge <= 0 {
		c.MaxAge = -1
	}
	return c.String()
}

func viewOf(u *identity.User) SignedInUser {
	return SignedInUser{PublicUser{u.ID, u.Nickname, u.Avatar}, u.Roles}
}

func (s *Service) getMe(ctx context.Context, _ *empty) (*meOut, error) {
	caller, err := identity.Require(ctx)
	if err != nil {
		return nil, err
	}
	return s.me(ctx, caller.ID)
}

func (s *Service) me(ctx context.Context, userID id.ID) (*meOut, error) {
	u, err := findUser(ctx, s.o.DB.Read, userID)
	if err != nil {
		return nil, err
	}
	shops := []id.ID{}
	if s.o.ShopsOf != nil {
		owned, err := s.o.ShopsOf(ctx, userID)
		if err != nil {
			return nil, err
		}
		shops = append(shops, owned...)
	}
	who := u.identity()
	return &meOut{Me{viewOf(&who), mask(u.Phone), u.PasswordHash != "", shops}}, nil
}

func (s *Service) updateMe(ctx context.Context, in *profileIn) (*meOut, error) {
	caller, err := identity.Require(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.UpdateProfile(ctx, caller.ID, in.Body.Nickname, in.Body.Avatar); err != nil {
		return nil, err
	}
	return s.me(ctx, caller.ID)
}

func (s *Service) setPassword(ctx context.Context, in *passwordIn) (*empty, error) {
	caller, err := identity.Require(ctx)
	if err != nil {
		return nil, err
	}
	return nil, s.SetPassword(ctx, caller.ID, in.Body.Password, in.Body.CurrentPassword, identity.From(ctx).Session)
}

func (s *Service) listSessions(ctx context.Context, _ *empty) (*sessionsOut, error) {
	caller, err := identity.Require(ctx)
	if err != nil {
		return nil, err
	}
	list, err := s.Sessions(ctx, caller.ID)
	if err != nil {
		return nil, err
	}
	out := &sessionsOut{Body: api.List[SessionItem]{Items: make([]SessionItem, len(list))}}
	for i, x := range list {
		out.Body.Items[i] = SessionItem{x.ID, api.Wire(x.CreatedAt), api.Wire(x.LastSeenAt), x.UserAgent, x.IP, x.ID == identity.From(ctx).Session}
	}
	return out, nil
}

func (s *Service) endOtherSessions(ctx context.Context, _ *empty) (*empty, error) {
	caller, err := identity.Require(ctx)
	if err != nil {
		return nil, err
	}
	_, err = s.endOthers(ctx, caller.ID, identity.From(ctx).Session)
	return nil, err
}

func (s *Service) endSession(ctx context.Context, in *sessionIn) (*empty, error) {
	caller, err := identity.Require(ctx)
	if err != nil {
		return nil, err
	}
	return nil, s.End(ctx, caller.ID, in.ID)
}

func (s *Service) getUser(ctx context.Context, in *userIn) (*userOut, error) {
	u, err := findProfile(ctx, s.o.DB.Read, in.ID.ID)
	if err != nil {
		return nil, err
	}
	return &userOut{PublicUser{u.ID, u.Nickname, u.Avatar}}, nil
}

func (s *Service) getDemoCode(_ context.Context, in *codeIn) (*codeOut, error) {
	if s.inbox == nil {
		return nil, api.ErrNoSuchPath
	}
	code, sentAt, ok := s.inbox.Last(in.Phone)
	if !ok {
		return nil, ErrNoCode
	}
	return &codeOut{codeBody{in.Phone, code, api.Wire(sentAt)}}, nil
}

func (s *Service) createTestUsers(ctx context.Context, in *testUsersIn) (*testUsersOut, error) {
	if !s.o.TestUsers {
		return nil, api.ErrNoSuchPath
	}
	tokens, err := s.CreateTestUsers(ctx, in.Body.Count, Device{in.UserAgent, api.RequestOf(ctx).IP})
	if err != nil {
		return nil, err
	}
	return &testUsersOut{tokensBody{tokens}}, nil
}
