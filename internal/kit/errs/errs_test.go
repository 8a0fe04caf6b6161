package errs

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestIsComparesCodesThroughWrapping(t *testing.T) {
	sold := &Error{Code: "t.sold_out", Kind: Conflict, ZH: "库存不足", EN: "Sold out."}
	other := &Error{Code: "t.other"}
	err := fmt.Errorf("grab: %w", sold.With(errors.New("stock 0")).After(time.Second).Set("orderIds", []string{"1"}))
	if !errors.Is(err, sold) || errors.Is(err, other) {
		t.Fatalf("errors.Is must go by code: %v", err)
	}
	if e := From(err); e.RetryAfter != time.Second || e.Extra["orderIds"] == nil {
		t.Fatalf("From lost what was added: %+v", e)
	}
	if sold.Extra != nil || sold.RetryAfter != 0 {
		t.Fatal("With, After and Set must not change the defined value")
	}
}

func TestFromHidesForeignErrors(t *testing.T) {
	e := From(errors.New("dial tcp 10.0.0.1"))
	if e.Kind != Internal || e.Text("en") == e.cause.Error() {
		t.Fatalf("a foreign error must become internal: %+v", e)
	}
}

func TestTextByLanguage(t *testing.T) {
	e := (&Error{Code: "t.x", ZH: "还有 %d 秒", EN: "%d seconds left"}).Withf(3)
	if e.Text("en") != "3 seconds left" || e.Text("zh") != "还有 3 秒" || e.Text("") != "还有 3 秒" {
		t.Fatal(e.Text("en"), e.Text("zh"))
	}
}

func TestEveryKindHasAStatus(t *testing.T) {
	for k := Internal; k <= Timeout; k++ {
		if k.Status() < 400 {
			t.Errorf("kind %d has no status", k)
		}
	}
}
