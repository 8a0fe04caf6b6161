// Package console exists to show operators what waits for them, and to let them act on it: dead letters, and differences
// between gate and database. It owns no rows of its own. What an act means is said where the thing lives: a dead letter in
// package order, a reconciliation in package flashsale; here is who may, and how it looks on the wire.
//
// Operators look and act; read-only operators look. Each act leaves a line in audit_log.
package console
