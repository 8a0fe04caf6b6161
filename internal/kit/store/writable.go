package store

import (
	"context"
	"errors"
)

// Writable reports whether the database answers and takes changes, by one that changes nothing: a server that has
// become read-only answers a Ping all the same, and so does a file on a full disk.
func (d *DB) Writable(ctx context.Context) error {
	return errors.Join(d.Read.PingContext(ctx), Exec(ctx, d.Write, d.dialect.trial))
}
