package account

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Sender delivers a code to a phone. It is safe for concurrent use and returns nil only when the code is on its way.
type Sender interface {
	Send(ctx context.Context, phone, code string) error
}

var (
	_ Sender = (*LogSender)(nil)
	_ Sender = (*Inbox)(nil)
)

// LogSender delivers nothing: it notes that a code was made, with the phone masked and without the code.
type LogSender struct{ Log *slog.Logger }

// Send implements Sender.
func (s *LogSender) Send(ctx context.Context, phone, _ string) error {
	s.Log.InfoContext(ctx, "sign-in code sent", "phone", mask(phone))
	return nil
}

// inboxSize is how many letters an Inbox holds; older ones make room.
const inboxSize = 1000

// Inbox keeps the latest codes in memory so that a demo needs no phone. Never use it where real people sign in.
type Inbox struct {
	now func() time.Time

	mu      sync.Mutex
	letters [inboxSize]letter // guarded by mu: a ring
	next    int               // guarded by mu: where the next letter goes
}

type letter struct {
	phone, code string
	sentAt      time.Time
}

// NewInbox returns an empty inbox that reads the time from now.
func NewInbox(now func() time.Time) *Inbox { return &Inbox{now: now} }

// Send implements Sender.
func (b *Inbox) Send(_ context.Context, phone, code string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.letters[b.next] = letter{phone, code, b.now()}
	b.next = (b.next + 1) % inboxSize
	return nil
}

// Last returns the newest code sent to the phone; ok = false when the inbox has none.
func (b *Inbox) Last(phone string) (code string, sentAt time.Time, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range inboxSize {
		l := b.letters[(b.next-1-i+2*inboxSize)%inboxSize]
		if l.phone == phone && phone != "" {
			return l.code, l.sentAt, true
		}
	}
	return "", time.Time{}, false
}
