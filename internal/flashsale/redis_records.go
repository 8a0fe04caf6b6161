package flashsale

import (
	"fmt"
	"strconv"
	"strings"

	"tandian/internal/kit/id"
	"tandian/internal/kit/money"
	"tandian/internal/order"
)

// prepared is a snapshot in the form of the keys: fields and values, or members and scores.
type prepared struct {
	stock                             int64
	buyers, orders, requests, pending map[string]string
}

func prepare(s Snapshot) prepared {
	p := prepared{stock: s.Stock, buyers: map[string]string{}, orders: map[string]string{}, requests: map[string]string{}, pending: map[string]string{}}
	remember := func(r order.Reservation) {
		if r.RequestID != "" {
			p.requests[r.UserID.String()+":"+r.RequestID] = r.OrderID.String()
		}
	}
	hold := func(r order.Reservation, state string) {
		user, slots := r.UserID.String(), strconv.Itoa(r.Slot)+"="+r.OrderID.String()
		if held := p.buyers[user]; held != "" {
			slots = held + ";" + slots
		}
		p.buyers[user] = slots
		p.orders[r.OrderID.String()] = recordOf(r, state)
		remember(r)
	}
	for _, r := range s.Answered {
		remember(r)
	}
	for _, r := range s.Live {
		hold(r, "W")
	}
	for _, r := range s.InFlight {
		if _, seen := p.orders[r.OrderID.String()]; !seen {
			p.stock--
			hold(r, "P")
			p.pending[r.OrderID.String()] = strconv.FormatInt(r.AdmittedAt, 10)
		}
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
