package console

import (
	"reflect"
	"strings"
	"testing"

	"tandian/internal/kit/money"
	"tandian/internal/payment"
)

// Each way in which money and orders disagree has its words in both languages, with both amounts, and its place in the
// document.
func TestMoneyCauses(t *testing.T) {
	field, _ := reflect.TypeFor[moneyDifferenceJSON]().FieldByName("Kind")
	documented := strings.Split(field.Tag.Get("enum"), ",")
	if len(moneyCauses) != len(payment.Kinds()) || len(documented) != len(payment.Kinds()) {
		t.Errorf("%d causes, %d documented, %d kinds", len(moneyCauses), len(documented), len(payment.Kinds()))
	}
	for i, kind := range payment.Kinds() {
		if documented[i] != string(kind) {
			t.Errorf("%s is documented as %s", kind, documented[i])
		}
		for _, lang := range []string{"zh", "en"} {
			said := moneyCauses[kind].in(lang, money.Fen(123), money.Fen(456))
			if !strings.Contains(said, "¥1.23") || !strings.Contains(said, "¥4.56") || strings.Contains(said, "%!") {
				t.Errorf("%s: %s", kind, said)
			}
		}
	}
}
