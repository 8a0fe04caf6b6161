package order_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/uptrace/bun"

	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/order"
)

// attempt is what a provider knows of an order's open attempt to be paid.
type attempt int

const (
	none   attempt = iota
	open           // and can be closed
	paid           // a while ago, and nobody was told
	silent         // the provider doesn't answer
)

// till stands in for package payment, which may not be imported: it moves orders as payment does, and its provider says
// what the test wants.
type till struct {
	*town

	mu       sync.Mutex
	attempts map[id.ID]attempt // guarded by mu
	asked    int               // guarded by mu
}

func (p *till) set(orderID id.ID, a attempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attempts[orderID] = a
}

func (p *till) questions() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

var errSilent = errors.New("the provider doesn't answer")

// settle applies what the provider says; closing ends an open attempt.
func (p *till) settle(ctx context.Context, orderID id.ID, closing bool) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	switch p.attempts[orderID] {
	case silent:
		return false, errSilent
	case paid:
		return true, p.db.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
			o, err := p.orders.FindAny(ctx, orderID)
			if err != nil {
				return err
			}
			_, _, err = order.MarkPaid(ctx, p.db, tx, orderID, o.AdmittedAt+1, p.ms.Load())
			return err
		})
	case open:
		if closing {
			p.attempts[orderID] = none
		}
	}
	return false, nil
}

func (p *till) WithOpen(_ context.Context, orders []id.ID) (with []id.ID, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range orders {
		if p.attempts[o] != none {
			with = append(with, o)
		}
	}
	return with, nil
}

func (p *till) CloseOpen(ctx context.Context, orderID id.ID) (bool, error) {
	return p.settle(ctx, orderID, true)
}

func (p *till) AskOpen(ctx context.Context, orderID id.ID) error {
	_, err := p.settle(ctx, orderID, false)
	return err
}

func (p *till) Refund(ctx context.Context, orderID id.ID, reason string, by order.Actor) (moved bool, err error) {
	err = p.db.Tx(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		moved, err = order.MarkRefunding(ctx, tx, orderID, reason, by, p.ms.Load())
		return err
	})
	return moved, err
}

func (p *till) Of(context.Context, id.ID) ([]order.Attempt, *order.Refund, error) {
	return nil, nil, nil
}

// The people of the town: an owner of the shop, its clerk, one of another shop, and one who only looks like a clerk.
const (
	owner       id.ID = 2
	clerk       id.ID = 11
	otherClerk  id.ID = 12
	formerClerk id.ID = 13
	operator    id.ID = 14
)

// staff stands in for packages shop and account.
type staff struct{}

func (staff) RedeemsFor(_ context.Context, u *identity.User) ([]id.ID, error) {
	switch {
	case u.ID == owner, u.ID == clerk && u.Has(identity.Clerk):
		return []id.ID{shopID}, nil
	case u.ID == otherClerk:
		return []id.ID{shopID + 1}, nil
	}
	return nil, nil
}

func (staff) Names(_ context.Context, shops []id.ID) (map[id.ID]string, error) {
	names := map[id.ID]string{}
	for _, s := range shops {
		names[s] = "茶馆"
	}
	return names, nil
}

func (staff) PhoneTails(_ context.Context, users []id.ID) (map[id.ID]string, error) {
	tails := map[id.ID]string{}
	for _, u := range users {
		tails[u] = fmt.Sprintf("%04d", u)
	}
	return tails, nil
}

// as is a context of somebody signed in.
func as(ctx context.Context, user id.ID, roles ...identity.Role) context.Context {
	return identity.With(ctx, &identity.Caller{User: &identity.User{ID: user, Roles: append(roles, identity.Shopper)}})
}
