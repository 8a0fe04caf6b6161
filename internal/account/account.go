package account

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"tandian/internal/kit/api"
	"tandian/internal/kit/errs"
	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
)

// Errors of this package.
var (
	ErrPhoneInvalid    = errs.Define("auth.phone_invalid", errs.Invalid, "请输入正确的大陆手机号。", "Give a mainland mobile number of 11 digits.")
	ErrCodeTooOften    = errs.Define("auth.code_too_often", errs.TooMany, "验证码发送太频繁，请稍后再试。", "Too many codes were asked for; wait a while.")
	ErrCodeNotSent     = errs.Define("auth.code_not_sent", errs.Unavailable, "验证码没有发出去，请再试一次。", "The code could not be sent. Try again.")
	ErrCodeWrong       = errs.Define("auth.code_wrong", errs.Unauthorized, "验证码错误或已失效。", "The code is wrong or no longer valid.")
	ErrPasswordWrong   = errs.Define("auth.password_wrong", errs.Unauthorized, "手机号或密码错误。", "Phone or password is wrong.")
	ErrCurrentPassword = errs.Define("auth.current_password_wrong", errs.Invalid, "当前密码不对。", "The current password is wrong.")
	ErrTooManyTries    = errs.Define("auth.too_many_tries", errs.TooMany, "密码输错太多次，请稍后再试，或改用验证码登录。",
		"Too many wrong passwords. Wait a while, or sign in with a code.")
	ErrBusy = errs.Define("auth.busy", errs.Unavailable, "现在登录的人太多，请稍后再试。", "Too many people are signing in. Try again in a moment.")

	ErrBanned          = errs.Define("auth.banned", errs.Forbidden, "账号已被封禁。", "This account is banned.")
	ErrUserNotFound    = errs.Define("user.not_found", errs.NotFound, "没有这个用户。", "No such user.")
	ErrSessionNotFound = errs.Define("auth.session_not_found", errs.NotFound, "没有这个登录记录。", "No such session.")
	ErrNoCode          = errs.Define("auth.no_code", errs.NotFound, "没有发给这个手机号的验证码。", "No code was sent to this phone.")
)

// Profile is what Ensure writes. On an update empty fields (nil Roles) leave what is there.
type Profile struct {
	Phone    string
	Nickname string // "" on creation = a random one
	Avatar   string // a path below /pictures/ or /uploads/
	Password string
	Roles    []identity.Role
}

// SignIn is what a successful sign-in hands out. Only here does a token appear.
type SignIn struct {
	Token  string
	EndsAt time.Time // the absolute end; without a request for SessionTTL it ends earlier
	User   identity.User
}

// Device is where a session was opened, as its owner sees it in his list.
type Device struct {
	UserAgent string
	IP        string
}

// Session is an entry of a user's list of sessions.
type Session struct {
	ID         string // the SHA-256 of the token, hex: not a secret
	CreatedAt  time.Time
	LastSeenAt time.Time // to within a sixth of the TTL
	Device
}

const (
	tokenPrefix    = "login:token:"
	changingPrefix = "login:changing:"
)

// LeasedKeys returns the prefixes of the keys whose leases Resolve lives by: see kv.Store.Lease.
func LeasedKeys() []string { return []string{tokenPrefix, changingPrefix} }

// The keys of this package in the kv store. Phones have passed validPhone, addresses network, hashes are hex.
func codeKey(phone string) string          { return "login:code:" + phone }
func codePauseKey(phone string) string     { return "login:code:pause:" + phone }
func codeDayKey(phone string) string       { return "login:code:day:" + phone }
func codeNetworkKey(ip string) string      { return "login:code:ip:" + network(ip) }
func codeTriesKey(nonce string) string     { return "login:code:tries:" + nonce }
func passwordTriesKey(phone string) string { return "login:password:tries:" + phone }
func tokenKey(hash string) string          { return tokenPrefix + hash }
func sessionsKey(user id.ID) string        { return "login:sessions:" + user.String() }
func changingKey(user id.ID) string        { return changingPrefix + user.String() }

// validPhone reports whether phone is a mainland mobile number: 1, then 3 to 9, then nine digits.
func validPhone(phone string) bool {
	return len(phone) == 11 && phone[0] == '1' && phone[1] >= '3' && every(phone, isDigit)
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

func every(s string, f func(byte) bool) bool {
	for i := range len(s) {
		if !f(s[i]) {
			return false
		}
	}
	return true
}

// mask shows the part of a phone that may be seen: 138****0001.
func mask(phone string) string { return phone[:3] + "****" + phone[7:] }

const (
	maxNickname = 24
	maxAvatar   = 255
)

// checkNickname returns a fault unless name is one line of 1 to 24 characters with something to see in it (W23).
func checkNickname(name string) error {
	if err := api.CleanText("body.nickname", name, 1, maxNickname); err != nil {
		return err
	}
	if strings.TrimSpace(name) == "" || strings.ContainsAny(name, "\r\n\t") {
		return api.Faults(api.Invalid{Location: "body.nickname", Message: "want one line that is not blank"})
	}
	return nil
}

// checkAvatar returns a fault unless avatar is empty or a plain path to a picture of our own: nothing that makes a
// browser or a server fetch from elsewhere (W24).
func checkAvatar(avatar string) error {
	ours := strings.HasPrefix(avatar, "/pictures/") || strings.HasPrefix(avatar, "/uploads/")
	plain := len(avatar) <= maxAvatar && path.Clean(avatar) == avatar && every(avatar, func(b byte) bool {
		return isDigit(b) || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || strings.IndexByte("/._-", b) >= 0
	})
	if avatar != "" && !(ours && plain) {
		return api.Faults(api.Invalid{Location: "body.avatar", Message: "want a path below /pictures/ or /uploads/"})
	}
	return nil
}

// joinRoles is how roles are stored: shopper, which everyone is, then the others once each. It returns an error for
// a role that does not exist.
func joinRoles(roles []identity.Role) (string, error) {
	names := []string{string(identity.Shopper)}
	for _, r := range roles {
		switch r {
		case identity.Shopper, identity.Merchant, identity.Clerk, identity.Operator, identity.ReadOnly:
		default:
			return "", fmt.Errorf("no role %q", r)
		}
		if !slices.Contains(names, string(r)) {
			names = append(names, string(r))
		}
	}
	return strings.Join(names, ","), nil
}

func splitRoles(stored string) []identity.Role {
	var roles []identity.Role
	for name := range strings.SplitSeq(stored, ",") {
		roles = append(roles, identity.Role(name))
	}
	return roles
}
