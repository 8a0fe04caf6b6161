package store

import (
	"strings"
	"testing"
)

// What can't be parsed is told without being quoted: any part of it may be the password.
func TestDSNIsNotQuoted(t *testing.T) {
	for _, dsn := range []string{"tandian:pa55word", "tandian:pa55word/x", "tandian:pa55word@tcp(h:1)x", "tandian@pa55word(h)/x", "tandian:x@tcp(h:1)/", "tandian:x@tcp(h:1)/%zzpa55word"} {
		db, err := OpenMySQL(t.Context(), dsn, Pool{MaxOpen: 1})
		if err == nil {
			t.Fatal(dsn, db.Close())
		}
		if strings.Contains(err.Error(), "pa55word") || !strings.Contains(err.Error(), "user:password@tcp(host:port)/database") {
			t.Errorf("%s: %v", dsn, err)
		}
	}
}
