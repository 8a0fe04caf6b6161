package order

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/uptrace/bun"

	"tandian/internal/kit/id"
)

// Content is a letter's message as a person may see it.
type Content struct {
	Reservations []Reservation // of TopicCreate
	Orders       []id.ID       // of the other topics
	Statuses     map[id.ID]Status
	Raw          string // of what is not ours: the beginning, with everything masked that might be a phone or a token
	Size         int    // bytes
}

// Name is the message id; one that isn't ours may be anything, and is masked.
func (l *Letter) Name() string {
	if l.Ours {
		return l.MessageID
	}
	return Masked(l.MessageID)
}

// about returns the orders that a message of a topic of ours is about, or an error if this version can't read it.
func about(topic string, body []byte) ([]letterOrder, error) {
	var orders []letterOrder
	switch topic {
	case TopicCreate:
		rs, err := Decode(body)
		if err != nil {
			return nil, err
		}
		for _, r := range rs {
			orders = append(orders, letterOrder{OrderID: r.OrderID, PayBefore: r.PayBefore})
		}
	case TopicCreated:
		ids, err := decodeCreated(body)
		if err != nil {
			return nil, err
		}
		for _, orderID := range ids {
			orders = append(orders, letterOrder{OrderID: orderID})
		}
	case TopicCheck:
		c, err := decodeCheck(body)
		if err != nil {
			return nil, err
		}
		for _, orderID := range c.OrderIDs {
			orders = append(orders, letterOrder{OrderID: orderID})
		}
	default:
		return nil, fmt.Errorf("no message of topic %q is known", topic)
	}
	return orders, nil
}

// Read shows a letter's message, with the status of each order that it is about.
func (d *DeadLetters) Read(ctx context.Context, l *Letter) (*Content, error) {
	c := &Content{Size: len(l.Body), Statuses: map[id.ID]Status{}}
	orders, err := about(l.Topic, l.Body)
	if err != nil || !l.Ours {
		c.Raw = masked(l.Body)
		return c, nil
	}
	for _, o := range orders {
		c.Orders = append(c.Orders, o.OrderID)
	}
	if l.Topic == TopicCreate {
		if c.Reservations, err = Decode(l.Body); err != nil {
			return nil, err
		}
	}
	var rows []Order
	if err := d.DB.Read.NewSelect().Model(&rows).Column("id", "status").Where("id IN (?)", bun.List(c.Orders)).Scan(ctx); err != nil {
		return nil, err
	}
	for _, row := range rows {
		c.Statuses[row.ID] = row.Status
	}
	return c, nil
}

const mostRaw = 2048 // bytes of a body that is not ours

var (
	digits = regexp.MustCompile(`[0-9]+`)
	phone  = regexp.MustCompile(`^(?:86|0086)?1[3-9][0-9]{9}$`)
	tokens = regexp.MustCompile(`[A-Za-z0-9_\-]{20,}`)
)

// Masked hides what might be a phone number or a token: a mobile number, and long runs of letters and digits. Order ids
// are shorter than that and longer than a phone.
func Masked(s string) string {
	s = digits.ReplaceAllStringFunc(s, func(run string) string {
		if phone.MatchString(run) {
			return "1**********"
		}
		return run
	})
	return tokens.ReplaceAllString(s, "******")
}

// masked is the beginning of a body that nobody can read.
func masked(body []byte) string {
	s := Masked(strings.ToValidUTF8(string(body), "\uFFFD"))
	if len(s) <= mostRaw {
		return s
	}
	s = s[:mostRaw]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + "…"
}
