// Package account exists to know who is asking: people sign in with a code sent to their phone, or with a password,
// and carry an opaque token from then on (A1–A6). Resolve is step one of every request; features read its outcome
// from package identity and never meet a phone number.
//
// # Codes
//
//	POST /auth/codes     caps by address and phone → six digits → HMAC under login:code:<phone>, 2 min → Sender
//	POST /auth/sessions  Incr tries of this very code → compare → Take: of many right answers one wins
//
// The try counter is named after the code's nonce, so it lives and dies with the code; the sixth look at a code is
// refused before it is compared, whatever it says.
//
// # Sessions
//
//	token (128 random bits, 32 hex) ── SHA-256 ──▶ login:token:<hash> {user, created, ua, ip}, sliding TTL
//	                                               login:sessions:<user> = set of hashes, for lists and kicks
//
// Nothing but the client holds the token; the hash is the session's public id. Invariants:
//
//   - A session is written once and from then on only touched or deleted. Rewriting it could bring back one that is
//     being ended at the same moment, so the time it was last seen is read off its TTL, and what may change about
//     the user (nickname, avatar, roles, ban) is read from SQL.
//   - The token is stored before its hash joins the set: whatever a kick finds can be ended, and a token that never
//     joined was never handed out.
//   - It is renewed when that lengthens its life by a sixth of the TTL or more, so an idle session lives between
//     five sixths of the TTL and the TTL, and never beyond SessionMax after sign-in.
//
// # What is remembered
//
// Resolve asks nobody for what it remembers (A5), and remembers only under a kv.Lease, taken before the question:
//
//	session   lease on login:token:<hash>      broken by logout, kick and renewal, which write that key anyway
//	profile   lease on login:changing:<user>   a change of the row is announced there:
//
//	          mark set ──▶ row committed ──▶ mark taken away
//	          leases break                   leases break again
//	          while there is a mark the row is read each time
//
// So logout, kick, ban, new roles and names bite with the next request here, and on other instances as soon as they
// hear of it, which takes a millisecond; an instance that hears nothing for half a second stops remembering and reads.
// An instance that dies with its mark set leaves others reading the row for ten seconds, whether it had committed or not.
// Without word from anybody a memory ends after a minute.
//
// # What can go wrong
//
// The kv store or the database can't be asked: the caller is Unknown, public pages go on, private ones answer 503,
// never 401. A sign-in whose code was taken but whose answer got lost needs a new code. Five wrong guesses void a
// code and ten wrong passwords close that door of a phone for a quarter of an hour: somebody else can do that to a
// user on purpose, who then still has the other door.
package account
