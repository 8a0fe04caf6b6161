package voucher

import (
	"fmt"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/uptrace/bun"

	"tandian/internal/kit/api"
	"tandian/internal/kit/errs"
	"tandian/internal/kit/id"
	"tandian/internal/kit/money"
	"tandian/internal/kit/store"
)

// Status says whether a voucher is offered.
type Status int

const (
	OnSale   Status = 1
	OffShelf Status = 2
)

var statusNames = map[Status]string{OnSale: "onSale", OffShelf: "offShelf"}

// MarshalText gives the name that travels.
func (s Status) MarshalText() ([]byte, error) { return []byte(statusNames[s]), nil }

// UnmarshalText reads what MarshalText writes.
func (s *Status) UnmarshalText(b []byte) error {
	for status, name := range statusNames {
		if name == string(b) {
			*s = status
			return nil
		}
	}
	return fmt.Errorf("%q is not a status of a voucher", b)
}

// Schema tells OpenAPI the names.
func (Status) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Enum: []any{statusNames[OnSale], statusNames[OffShelf]}}
}

var _ huma.SchemaProvider = OnSale

// Voucher is a row and what travels of it.
type Voucher struct {
	bun.BaseModel `bun:"table:voucher,alias:voucher"`

	ID        id.ID        `bun:",pk,autoincrement" json:"id"`
	ShopID    id.ID        `json:"shopId"`
	Title     string       `json:"title"`
	SubTitle  string       `json:"subTitle"`
	Rules     string       `json:"rules" doc:"Terms of use, may have several lines"`
	PayValue  money.Fen    `json:"payValue" doc:"What the buyer pays, in fen"`
	FaceValue money.Fen    `json:"faceValue" doc:"What it is worth, in fen; never less than payValue"`
	ValidDays int          `json:"validDays" doc:"Days it can be used after it was bought"`
	Status    Status       `json:"status"`
	CreatedAt int64        `json:"-"`
	UpdatedAt int64        `json:"-"`
	Sale      *VoucherSale `bun:"-" json:"sale,omitempty" doc:"The voucher's flash sale, if it has one"`
}

// VoucherSale is the sale of a voucher as a shop's list shows it.
type VoucherSale struct {
	ID           id.ID     `json:"id"`
	Phase        Phase     `json:"phase" enum:"scheduled,live,soldOut,paused,ended"`
	StockTotal   int64     `json:"stockTotal"`
	StockLeft    int64     `json:"stockLeft"`
	BeginsAt     time.Time `json:"beginsAt"`
	EndsAt       time.Time `json:"endsAt"`
	LimitPerUser int       `json:"limitPerUser"`
}

func viewOf(s *FlashSale, now time.Time) *VoucherSale {
	return &VoucherSale{ID: s.ID, Phase: s.Phase(now), StockTotal: s.StockReleased, StockLeft: s.Stock,
		BeginsAt: api.Wire(store.Time(s.BeginsAt)), EndsAt: api.Wire(store.Time(s.EndsAt)), LimitPerUser: s.LimitPerUser}
}

var (
	// ErrNotFound answers an id that no voucher has.
	ErrNotFound = errs.Define("voucher.not_found", errs.NotFound, "没有这张券。", "No such voucher.")
	// ErrSaleOpen answers a new price while a sale of the voucher is coming or running.
	ErrSaleOpen = errs.Define("voucher.sale_open", errs.Conflict, "秒杀结束前不能改价。", "The price stays until the flash sale has ended.")
)
