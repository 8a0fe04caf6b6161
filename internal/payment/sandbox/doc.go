// Package sandbox is a payment provider that moves no money, so that buying can be tried to its end with nothing
// installed. It behaves as a real one does: it keeps its own books (tables sandbox_*, which only this package reads),
// shows the buyer a cashier page, calls back with a signature, again and again until it is answered, and can be asked.
//
// On the cashier page a buyer also chooses what goes wrong: he can't pay; the money arrives after the deadline, though
// the provider has said closed; nobody calls back; a refund is slow, refused, or its answers are lost.
//
// # Notifications
//
// POST, JSON, with three headers:
//
//	X-Sandbox-Timestamp  seconds since 1970, of this delivery
//	X-Sandbox-Nonce      random, of this delivery
//	X-Sandbox-Signature  lower-case hex of HMAC-SHA256(secret, timestamp "\n" nonce "\n" body)
//
// Any 2xx ends the deliveries; until then they come after 1, 2, 4… seconds, ten times in all.
package sandbox
