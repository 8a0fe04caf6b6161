package sandbox

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"tandian/internal/kit/id"
	"tandian/internal/kit/money"
	"tandian/internal/payment"
)

// Headers of a notification.
const (
	headerTimestamp = "X-Sandbox-Timestamp"
	headerNonce     = "X-Sandbox-Nonce"
	headerSignature = "X-Sandbox-Signature"
)

// Merchant is whom the sandbox takes us for.
const Merchant = "tandian-sandbox"

const (
	currency   = "CNY"
	freshness  = 5 * time.Minute // how far a notification's time may be from ours
	seenBefore = 64              // bytes of a nonce at most
)

// notification is the body of a callback.
type notification struct {
	NoticeID   string    `json:"noticeId"`
	MerchantID string    `json:"merchantId"`
	PaymentID  id.ID     `json:"paymentId"`
	TradeNo    string    `json:"tradeNo"`
	State      string    `json:"state"` // paid or failed
	Amount     money.Fen `json:"amount"`
	Currency   string    `json:"currency"`
	PaidAt     int64     `json:"paidAt,omitempty"` // Unix ms
}

func mac(secret, message []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write(message)
	return h.Sum(nil)
}

// signature signs a delivery.
func signature(secret []byte, timestamp, nonce string, body []byte) string {
	return hex.EncodeToString(mac(secret, append([]byte(timestamp+"\n"+nonce+"\n"), body...)))
}

// sign makes the headers of a delivery.
func (s *Sandbox) sign(body []byte) http.Header {
	timestamp, nonce := strconv.FormatInt(s.Now().Unix(), 10), s.NewID()
	h := http.Header{}
	h.Set(headerTimestamp, timestamp)
	h.Set(headerNonce, nonce)
	h.Set(headerSignature, signature(s.Secret, timestamp, nonce, body))
	return h
}

// Verify implements payment.Provider.
func (s *Sandbox) Verify(header http.Header, body []byte) (payment.Notice, error) {
	refused := func(reason string) (payment.Notice, error) {
		return payment.Notice{}, &payment.RefusedNoticeError{Reason: reason}
	}
	timestamp, nonce := header.Get(headerTimestamp), header.Get(headerNonce)
	given, err := hex.DecodeString(header.Get(headerSignature))
	if err != nil || nonce == "" || len(nonce) > seenBefore ||
		!hmac.Equal(given, mac(s.Secret, append([]byte(timestamp+"\n"+nonce+"\n"), body...))) {
		return refused(payment.NoticeSignature)
	}
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || s.Now().Sub(time.Unix(seconds, 0)).Abs() > freshness {
		return refused(payment.NoticeStale)
	}
	n, err := decode(body)
	switch {
	case err != nil:
		return refused(payment.NoticeBody)
	case n.MerchantID != Merchant:
		return refused(payment.NoticeMerchant)
	case n.Currency != currency:
		return refused(payment.NoticeCurrency)
	}
	states := map[string]payment.TradeState{stateNames[paid]: payment.TradePaid, stateNames[failed]: payment.TradeFailed}
	state, ok := states[n.State]
	if !ok {
		return refused(payment.NoticeBody)
	}
	return payment.Notice{ID: n.NoticeID, PaymentID: n.PaymentID, Raw: string(body),
		Trade: payment.Trade{State: state, TradeNo: n.TradeNo, Amount: n.Amount, PaidAt: n.PaidAt}}, nil
}

// decode reads one notification and nothing else.
func decode(body []byte) (n notification, err error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&n); err != nil {
		return n, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return n, errors.New("more than one document")
	}
	return n, nil
}

// key opens the cashier of one payment to whoever was sent there.
func (s *Sandbox) key(paymentID id.ID) string {
	const enough = 16 // bytes
	return base64.RawURLEncoding.EncodeToString(mac(s.Secret, []byte("cashier\n"+paymentID.String()))[:enough])
}
