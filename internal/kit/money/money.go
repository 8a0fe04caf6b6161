// Package money exists so that an amount is never a float: everything is counted in fen, the hundredth of a yuan.
package money

import "fmt"

// Fen is an amount in hundredths of a yuan. On the wire it is a JSON integer.
type Fen int64

// String gives "¥47.50".
func (f Fen) String() string {
	sign := ""
	if f < 0 {
		sign, f = "-", -f
	}
	return fmt.Sprintf("%s¥%d.%02d", sign, f/100, f%100)
}
