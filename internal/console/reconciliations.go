package console

import (
	"context"
	"fmt"
	"time"

	"tandian/internal/flashsale"
	"tandian/internal/kit/api"
	"tandian/internal/kit/id"
	"tandian/internal/kit/store"
)

// RunJSON is a comparison in a list.
type RunJSON struct {
	ID          id.ID      `json:"id" doc:"Names the plan, too"`
	At          time.Time  `json:"at"`
	ActorID     id.ID      `json:"actorId,omitempty" doc:"Who asked for it; absent: the program itself, or an operator at the command line"`
	Sales       int        `json:"sales" doc:"Looked at"`
	Differences int        `json:"differences"`
	AppliedAt   *time.Time `json:"appliedAt,omitempty" doc:"When its plan was carried out"`
}

// runDetailJSON is a comparison with what it found.
type runDetailJSON struct {
	RunJSON
	QueueReady int64               `json:"queueReady" doc:"Messages on their way to the writers, of all sales"`
	Accounts   []flashsale.Account `json:"accounts" nullable:"false" doc:"What was seen of each sale"`
	Found      []differenceJSON    `json:"found" nullable:"false"`
}

// differenceJSON is one disagreement and its step of the plan.
type differenceJSON struct {
	SaleID   id.ID   `json:"saleId"`
	Kind     string  `json:"kind" enum:"sql_stock,oversold,ended_held,live_unheld,not_settled,no_row,slot,gate_units,withdrawn,terms"`
	Cause    string  `json:"cause" doc:"In words, in the language of Accept-Language"`
	Is       int64   `json:"is"`
	ShouldBe int64   `json:"shouldBe"`
	OrderIDs []id.ID `json:"orderIds,omitempty"`
	Action   string  `json:"action" enum:",set_stock,release,settle,reload,put_back,tell" doc:"The step that takes it from is to shouldBe; empty: only a person can"`
	Step     string  `json:"step" doc:"The action in words"`
	Outcome  string  `json:"outcome,omitempty" enum:"done,changed,blocked,no_step,failed" doc:"Of the step, once the plan was applied"`
}

func runWire(r *flashsale.Reconciliation) RunJSON {
	return RunJSON{ID: r.ID, At: api.Wire(store.Time(r.At)), ActorID: r.ActorID, Sales: r.Sales, Differences: r.Differences, AppliedAt: moment(r.AppliedAt)}
}

type runOutput struct{ Body runDetailJSON }

func runDetail(ctx context.Context, r *flashsale.Reconciliation) (*runOutput, error) {
	report, err := r.Report()
	if err != nil {
		return nil, err
	}
	lang := api.RequestOf(ctx).Language()
	out := &runOutput{runDetailJSON{RunJSON: runWire(r), QueueReady: report.QueueReady, Accounts: report.Accounts, Found: []differenceJSON{}}}
	for _, d := range report.Differences {
		out.Body.Found = append(out.Body.Found, differenceJSON{SaleID: d.SaleID, Kind: string(d.Kind), Cause: causes[d.Kind].in(lang, d.Is, d.ShouldBe), Is: d.Is, ShouldBe: d.ShouldBe,
			OrderIDs: d.Orders, Action: string(d.Action), Step: steps[d.Action].in(lang), Outcome: string(d.Outcome)})
	}
	return out, nil
}

func (s *Service) listRuns(ctx context.Context, in *api.Page) (*struct{ Body api.List[RunJSON] }, error) {
	if err := mayLook(ctx); err != nil {
		return nil, err
	}
	var before id.ID
	if err := api.DecodeCursor(in.Cursor, &before); err != nil {
		return nil, err
	}
	runs, err := s.Reconciler.List(ctx, before, in.Limit+1)
	if err != nil {
		return nil, err
	}
	items := make([]RunJSON, len(runs))
	for i := range runs {
		items[i] = runWire(&runs[i])
	}
	return &struct{ Body api.List[RunJSON] }{api.Cut(items, in.Limit, func(last RunJSON) any { return last.ID })}, nil
}

func (s *Service) getRun(ctx context.Context, in *idInput) (*runOutput, error) {
	if err := mayLook(ctx); err != nil {
		return nil, err
	}
	r, err := s.Reconciler.Find(ctx, in.ID.ID)
	if err != nil {
		return nil, err
	}
	return runDetail(ctx, r)
}

type runInput struct {
	Body struct {
		SaleID id.ID `json:"saleId,omitempty" doc:"Absent: all sales"`
	}
}

func (s *Service) run(ctx context.Context, in *runInput) (*runOutput, error) {
	by, err := actor(ctx)
	if err != nil {
		return nil, err
	}
	r, err := s.Reconciler.Run(ctx, in.Body.SaleID, by)
	if err != nil {
		return nil, err
	}
	return runDetail(ctx, r)
}

func (s *Service) applyRun(ctx context.Context, in *idInput) (*runOutput, error) {
	by, err := actor(ctx)
	if err != nil {
		return nil, err
	}
	r, err := s.Reconciler.Apply(ctx, in.ID.ID, by)
	if err != nil {
		return nil, err
	}
	return runDetail(ctx, r)
}

// text is what a person reads, in both languages; verbs are filled with the numbers.
type text struct{ zh, en string }

func (t text) in(lang string, args ...any) string {
	format := t.zh
	if lang == "en" {
		format = t.en
	}
	if len(args) == 0 {
		return format
	}
	return fmt.Sprintf(format, args...)
}

// causes say of each kind of difference what was seen; the verbs are what is, and what should be.
var causes = map[flashsale.Kind]text{
	flashsale.KindStock:     {"数据库库存是 %d，按已放出的件数减去有效订单应为 %d", "SQL's stock is %d; what was released less the live orders is %d"},
	flashsale.KindOversold:  {"有效订单有 %d 个，放出的只有 %d 件：超卖", "%d live orders for %d units released: oversold"},
	flashsale.KindEnded:     {"闸口仍占着 %d 个已结束的订单（应为 %d），也没有待归还的记录", "The gate still holds %d orders that have ended (should be %d), and no release is waiting for them"},
	flashsale.KindUnheld:    {"闸口不认识 %d 个有效订单（应为 %d）", "%d live orders are unknown to the gate (should be %d)"},
	flashsale.KindUnsettled: {"%d 个订单已写入数据库，闸口仍在等（应为 %d）", "%d orders have rows that the gate still waits for (should be %d)"},
	flashsale.KindNoRow:     {"闸口认为已写入的 %d 个订单在数据库中不存在（应为 %d）", "%d orders that the gate takes for written have no row (should be %d)"},
	flashsale.KindSlot:      {"%d 个订单在闸口与数据库中的名额位置不同（应为 %d）", "%d orders lie in other slots in the gate than in SQL (should be %d)"},
	flashsale.KindUnits:     {"闸口的库存加占用共 %d 件，放出的是 %d 件", "The gate's stock and orders make %d units; %d were released"},
	flashsale.KindWithdrawn: {"闸口有 %d 件因减库存被暂扣且一直没有归还（应为 %d）", "%d units were set aside for a change of stock and never came back (should be %d)"},
	flashsale.KindTerms:     {"闸口按第 %d 版条款工作，数据库是第 %d 版", "The gate goes by version %d of the terms; SQL has version %d"},
}

// steps say what a step of a plan does.
var steps = map[flashsale.Action]text{
	flashsale.ActNone:     {"需要人工处理：退款，或追加库存", "For a person: refund orders, or put more units up"},
	flashsale.ActSetStock: {"改正数据库库存（记入审计）", "Correct SQL's stock (audited)"},
	flashsale.ActRelease:  {"让闸口归还这些订单的名额", "Give these orders' units back to the gate"},
	flashsale.ActSettle:   {"把这些订单告知闸口", "Tell the gate of these orders"},
	flashsale.ActReload:   {"由数据库重建闸口；须先暂停活动并等队列清空", "Build the gate anew from SQL; pause the sale and let its queue run empty first"},
	flashsale.ActPutBack:  {"把暂扣的件数归还闸口", "Put what was set aside back into the gate"},
	flashsale.ActTell:     {"把现行条款告知闸口", "Tell the gate the terms as they are"},
}
