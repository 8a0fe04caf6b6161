package console

import (
	"context"
	"time"

	"tandian/internal/kit/api"
	"tandian/internal/kit/id"
	"tandian/internal/kit/money"
	"tandian/internal/kit/store"
	"tandian/internal/order"
)

// LetterJSON is a dead letter in a list.
type LetterJSON struct {
	ID         id.ID      `json:"id"`
	Topic      string     `json:"topic"`
	MessageID  string     `json:"messageId"`
	State      string     `json:"state" enum:"pending,fixed,ignored"`
	Reason     string     `json:"reason" doc:"Of its last death"`
	Attempts   int64      `json:"attempts" doc:"Of the consumer, all lives together"`
	Replayable bool       `json:"replayable" doc:"False: not a message of ours (forged or not readable), which can only be ignored"`
	OrderIDs   []id.ID    `json:"orderIds" nullable:"false"`
	FirstAt    time.Time  `json:"firstAt"`
	LastAt     time.Time  `json:"lastAt"`
	Sent       int64      `json:"sent" doc:"How often it was sent again, by itself or by a person"`
	SentAt     *time.Time `json:"sentAt,omitempty"`
	EndedAt    *time.Time `json:"endedAt,omitempty"`
	Note       string     `json:"note,omitempty"`
	ActorID    id.ID      `json:"actorId,omitempty" doc:"Who acted on it last; absent: the program itself, or an operator at the command line"`
}

// letterDetailJSON is a dead letter with its message.
type letterDetailJSON struct {
	LetterJSON
	Reservations []reservationJSON `json:"reservations,omitempty" doc:"What the message holds, if it is a create message"`
	Raw          string            `json:"raw,omitempty" doc:"The beginning of a message that is not ours; phones and tokens are masked"`
	Size         int               `json:"size" doc:"Of the message, in bytes"`
}

type reservationJSON struct {
	OrderID    id.ID     `json:"orderId"`
	SaleID     id.ID     `json:"saleId"`
	VoucherID  id.ID     `json:"voucherId"`
	UserID     id.ID     `json:"userId"`
	Slot       int       `json:"slot"`
	Amount     money.Fen `json:"amount"`
	AdmittedAt time.Time `json:"admittedAt"`
	PayBefore  time.Time `json:"payBefore"`
	Status     string    `json:"status" enum:"queued,unpaid,paid,used,closed,refunding,refunded,failed" doc:"Of the order now"`
}

func letterWire(l *order.Letter, orders []id.ID) LetterJSON {
	last := l.LastAt
	if last == 0 {
		last = l.CreatedAt
	}
	if orders == nil {
		orders = []id.ID{}
	}
	return LetterJSON{ID: l.ID, Topic: l.Topic, MessageID: l.Name(), State: l.State.String(), Reason: order.Masked(l.Reason), Attempts: l.Attempts,
		Replayable: l.Ours, OrderIDs: orders, FirstAt: api.Wire(store.Time(l.CreatedAt)), LastAt: api.Wire(store.Time(last)), Sent: l.Sent,
		SentAt: moment(l.SentAt), EndedAt: moment(l.EndedAt), Note: l.Note, ActorID: l.ActorID}
}

type listLettersInput struct {
	api.Page
	Topic   string   `query:"topic" maxLength:"64" example:"voucher.order.create"`
	State   string   `query:"state" enum:"pending,fixed,ignored"`
	Text    string   `query:"q" maxLength:"64" doc:"In the reason, the note or the message id"`
	OrderID id.Param `query:"orderId"`
}

func (s *Service) listLetters(ctx context.Context, in *listLettersInput) (*struct{ Body api.List[LetterJSON] }, error) {
	if err := mayLook(ctx); err != nil {
		return nil, err
	}
	var before id.ID
	if err := api.DecodeCursor(in.Cursor, &before); err != nil {
		return nil, err
	}
	state, _ := order.ParseLetterState(in.State)
	letters, err := s.Letters.List(ctx, order.LetterFilter{Topic: in.Topic, State: state, Text: in.Text, OrderID: in.OrderID.ID}, before, in.Limit+1)
	if err != nil {
		return nil, err
	}
	orders, err := s.Letters.Orders(ctx, letters)
	if err != nil {
		return nil, err
	}
	items := make([]LetterJSON, len(letters))
	for i := range letters {
		items[i] = letterWire(&letters[i], orders[letters[i].ID])
	}
	return &struct{ Body api.List[LetterJSON] }{api.Cut(items, in.Limit, func(last LetterJSON) any { return last.ID })}, nil
}

type letterOutput struct{ Body letterDetailJSON }

func (s *Service) getLetter(ctx context.Context, in *idInput) (*letterOutput, error) {
	if err := mayLook(ctx); err != nil {
		return nil, err
	}
	l, err := s.Letters.Find(ctx, in.ID.ID)
	if err != nil {
		return nil, err
	}
	return s.detail(ctx, l)
}

func (s *Service) detail(ctx context.Context, l *order.Letter) (*letterOutput, error) {
	content, err := s.Letters.Read(ctx, l)
	if err != nil {
		return nil, err
	}
	out := &letterOutput{letterDetailJSON{LetterJSON: letterWire(l, content.Orders), Raw: content.Raw, Size: content.Size}}
	for _, r := range content.Reservations {
		out.Body.Reservations = append(out.Body.Reservations, reservationJSON{OrderID: r.OrderID, SaleID: r.SaleID, VoucherID: r.VoucherID, UserID: r.UserID, Slot: r.Slot,
			Amount: r.Amount, AdmittedAt: api.Wire(store.Time(r.AdmittedAt)), PayBefore: api.Wire(store.Time(r.PayBefore)), Status: content.Statuses[r.OrderID].String()})
	}
	return out, nil
}

func (s *Service) replayLetter(ctx context.Context, in *idInput) (*letterOutput, error) {
	by, err := actor(ctx)
	if err != nil {
		return nil, err
	}
	l, err := s.Letters.Replay(ctx, in.ID.ID, by)
	if err != nil {
		return nil, err
	}
	return s.detail(ctx, l)
}

type ignoreInput struct {
	ID   id.Param `path:"id"`
	Body struct {
		Note string `json:"note" minLength:"1" maxLength:"200" doc:"Why, for whoever looks later"`
	}
}

func (s *Service) ignoreLetter(ctx context.Context, in *ignoreInput) (*letterOutput, error) {
	by, err := actor(ctx)
	if err != nil {
		return nil, err
	}
	if err := api.CleanText("body.note", in.Body.Note, 1, 200); err != nil {
		return nil, err
	}
	l, err := s.Letters.Ignore(ctx, in.ID.ID, by, in.Body.Note)
	if err != nil {
		return nil, err
	}
	return s.detail(ctx, l)
}

type replayInput struct {
	Body struct {
		Topic   string `json:"topic,omitempty" maxLength:"64"`
		Text    string `json:"q,omitempty" maxLength:"64" doc:"In the reason, the note or the message id"`
		OrderID id.ID  `json:"orderId,omitempty"`
		DryRun  bool   `json:"dryRun" doc:"True counts and sends nothing"`
	}
}

type replayOutput struct {
	Body struct {
		Matched       int `json:"matched" doc:"Pending letters that the filter finds"`
		Replayed      int `json:"replayed" doc:"Sent, or in a dry run: would be. At most 1,000 at a time"`
		NotReplayable int `json:"notReplayable" doc:"Not messages of ours; left alone"`
		Failed        int `json:"failed" doc:"Could not be sent now; they stay pending"`
	}
}

func (s *Service) replayLetters(ctx context.Context, in *replayInput) (*replayOutput, error) {
	by, err := actor(ctx)
	if err != nil {
		return nil, err
	}
	b, err := s.Letters.ReplayAll(ctx, order.LetterFilter{Topic: in.Body.Topic, Text: in.Body.Text, OrderID: in.Body.OrderID}, by, in.Body.DryRun)
	if err != nil {
		return nil, err
	}
	out := &replayOutput{}
	out.Body.Matched, out.Body.Replayed, out.Body.NotReplayable, out.Body.Failed = b.Matched, b.Replayed, b.Foreign, b.Failed
	return out, nil
}
