package order

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	webhookTimeout = 10 * time.Second // from the connection to the end of the answer
	webhookAnswer  = 64 << 10         // bytes read of an answer, so that its connection can be used again
	secretPrefix   = "whsec_"
)

// WebhookSender posts notifications as JSON, in the form of https://www.standardwebhooks.com, so that receivers can check
// them with a library:
//
//	webhook-id         the notification's id: the same for every attempt
//	webhook-timestamp  seconds since 1970, of this attempt
//	webhook-signature  "v1," and the base64 HMAC-SHA256 of "id.timestamp.body" under the shared secret
//
// Any 2xx is an arrival. 410 says that nobody wants them any more. Everything else, redirects included, is tried again;
// a Retry-After in seconds is kept.
type WebhookSender struct {
	URL    string
	Now    func() time.Time
	client *http.Client
	key    []byte
}

// RetryLaterError is a receiver's wish to be asked again after a while.
type RetryLaterError struct {
	After time.Duration
	Cause error
}

func (e *RetryLaterError) Error() string { return e.Cause.Error() }
func (e *RetryLaterError) Unwrap() error { return e.Cause }

// NewWebhookSender returns a sender to one address. A secret that begins with whsec_ is base64, as the convention has it;
// any other is taken as it is.
func NewWebhookSender(address, secret string, now func() time.Time) (*WebhookSender, error) {
	key := []byte(secret)
	if encoded, ok := strings.CutPrefix(secret, secretPrefix); ok {
		var err error
		if key, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			return nil, fmt.Errorf("webhook secret: what follows %s is not base64", secretPrefix)
		}
	}
	client := &http.Client{
		Timeout: webhookTimeout,
		// The signature is for this address; wherever a redirect leads was not configured.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &WebhookSender{URL: address, Now: now, client: client, key: key}, nil
}

// sign returns the value of webhook-signature.
func (s *WebhookSender) sign(messageID, timestamp string, body []byte) string {
	h := hmac.New(sha256.New, s.key)
	fmt.Fprintf(h, "%s.%s.%s", messageID, timestamp, body)
	return "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// Send implements Sender.
func (s *WebhookSender) Send(ctx context.Context, n Notification) error {
	body, err := json.Marshal(n)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	timestamp := strconv.FormatInt(s.Now().Unix(), 10)
	for name, value := range map[string]string{"Content-Type": "application/json", "User-Agent": "tandian",
		"webhook-id": n.ID, "webhook-timestamp": timestamp, "webhook-signature": s.sign(n.ID, timestamp, body)} {
		req.Header.Set(name, value)
	}
	res, err := s.client.Do(req)
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		return fmt.Errorf("webhook: %w", failed.Err) // without the address: the reason of a dead letter is shown to people
	}
	if err != nil {
		return fmt.Errorf("webhook: %w", err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, webhookAnswer)) // what it says beyond its status is not for us
	switch {
	case res.StatusCode/100 == 2:
		return nil
	case res.StatusCode == http.StatusGone:
		return fmt.Errorf("webhook answers %s: %w", res.Status, ErrGone)
	}
	err = fmt.Errorf("webhook answers %s", res.Status)
	if seconds, e := strconv.ParseInt(res.Header.Get("Retry-After"), 10, 32); e == nil && seconds > 0 {
		return &RetryLaterError{After: time.Duration(seconds) * time.Second, Cause: err}
	}
	return err
}
