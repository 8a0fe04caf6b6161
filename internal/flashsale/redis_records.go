package flashsale

import (
	"fmt"
	"strconv"
	"strings"

	"tandian/internal/kit/id"
	"tandian/internal/kit/money"
	"tandian/internal/order"
)

// prepared is a snapshot in the form of the keys: fields and values, or scores and members, in turn.
type prepared struct {
	stock                             int64
	buyers, orders, requests, pending []string
}

func prepare(s Snapshot) prepared {
	p := prepared{stock: s.Stock}
	held, seen := map[id.ID][]string{}, map[id.ID]bool{}
	remember := func(r order.Reservation) {
		if r.RequestID != "" {
			p.requests = append(p.requests, r.UserID.String()+":"+r.RequestID, r.OrderID.String())
		}
	}
	hold := func(r order.Reservation, state string) {
		seen[r.OrderID] = true
		held[r.UserID] = append(held[r.UserID], strconv.Itoa(r.Slot)+"="+r.OrderID.String())
		p.orders = append(p.orders, r.OrderID.String(), recordOf(r, state))
		remember(r)
	}
	for _, r := range s.Answered {
		remember(r)
	}
	for _, r := range s.Live {
		hold(r, "W")
	}
	for _, r := range s.InFlight {
		if !seen[r.OrderID] {
			p.stock--
			hold(r, "P")
			p.pending = append(p.pending, strconv.FormatInt(r.AdmittedAt, 10), r.OrderID.String())
		}
	}
	for user, slots := range held {
		p.buyers = append(p.buyers, user.String(), strings.Join(slots, ";"))
	}
	return p
}

// recordOf is the value of the orders hash; recordAs reads it back.
func recordOf(r order.Reservation, state string) string {
	return fmt.Sprintf("%s|%d|%d|%d|%d|%d|%d|%s", state, r.UserID, r.Slot, r.Amount, r.AdmittedAt, r.PayBefore, r.VoucherID, r.RequestID)
}

func recordAs(saleID, orderID id.ID, record string) (r order.Reservation, pending bool, err error) {
	f := strings.Split(record, "|")
	if len(f) != 8 {
		return r, false, fmt.Errorf("gate record of order %d: %q", orderID, record)
	}
	var n [6]int64
	for i := range n {
		if n[i], err = strconv.ParseInt(f[i+1], 10, 64); err != nil {
			return r, false, fmt.Errorf("gate record of order %d: %w", orderID, err)
		}
	}
	return order.Reservation{OrderID: orderID, SaleID: saleID, UserID: id.ID(n[0]), Slot: int(n[1]), Amount: money.Fen(n[2]), AdmittedAt: n[3],
		PayBefore: n[4], VoucherID: id.ID(n[5]), RequestID: f[7]}, f[0] == "P", nil
}
