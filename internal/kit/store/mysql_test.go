package store

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// What a server says about a row, and what about itself: the first will never be taken, the second may pass.
func TestMySQLErrors(t *testing.T) {
	for _, tc := range []struct {
		number   uint16
		state    string
		what     string
		rejected bool
	}{
		{1062, "23000", "duplicate key", true},
		{1048, "23000", "null", true},
		{1452, "23000", "foreign key", true},
		{4025, "23000", "CHECK of MariaDB", true},
		{3819, "HY000", "CHECK of MySQL", true},
		{1406, "22001", "too long", true},
		{1264, "22003", "out of range", true},
		{1366, "22007", "wrong characters, MariaDB", true},
		{1366, "HY000", "wrong characters, MySQL", true},
		{1292, "22007", "wrong value", true},
		{1364, "HY000", "no default", true},
		{1265, "01000", "data truncated", true},
		{1644, "45000", "refused by a trigger", true},

		{1205, "HY000", "lock wait timeout", false},
		{1213, "40001", "deadlock", false},
		{1290, "HY000", "read-only", false},
		{1792, "25006", "read-only transaction", false},
		{1836, "HY000", "read-only mode", false},
		{1040, "08004", "too many connections", false},
		{1203, "42000", "too many connections of the user", false},
		{1317, "70100", "query killed", false},
		{1927, "70100", "connection killed", false},
		{1053, "08S01", "shutting down", false},
		{1021, "HY000", "disk full", false},
		{1114, "HY000", "table full", false},
		{1030, "HY000", "error of the engine", false},
		{1153, "08S01", "packet too large", false},
		{1054, "42S22", "no such column: not migrated", false},
		{1146, "42S02", "no such table", false},
		{1142, "42000", "no right to", false},
	} {
		e := &mysql.MySQLError{Number: tc.number, Message: tc.what}
		copy(e.SQLState[:], tc.state)
		err := fmt.Errorf("insert: %w", e)
		if mysqlRejected(err) != tc.rejected || mysqlDuplicate(err) != (tc.number == 1062) {
			t.Errorf("%v: rejected %v, duplicate %v", err, mysqlRejected(err), mysqlDuplicate(err))
		}
	}
	for _, err := range []error{mysql.ErrInvalidConn, errors.New("i/o timeout"), fmt.Errorf("%w: %w", ErrCommitUnknown, mysql.ErrInvalidConn)} { // 2006 and 2013 of other clients
		if mysqlRejected(err) || mysqlDuplicate(err) {
			t.Errorf("%v is about the connection", err)
		}
	}
}
