// Package bench loads a running server with a whole flash sale and then judges what happened. It is used by the
// command `tandian bench` and by release checks.
//
// A figure of requests per second says nothing about a shop that sold one unit twice. So every run of [Grab] keeps its
// own record of each question asked and each answer got (a [History]), collects what the server and its database hold
// once everything is at rest ([Facts]), and compares the two with the pure function [Judge]. A run whose [Invariants]
// are broken, or that misses a threshold of --expect, returns a [*ViolationError].
//
// The shape of a run:
//
//	users, sale ─ each user reads the page ─ window and conflict probes on a sale of their own
//	time │ plain │ time │ plain │ time │ unruly │ time │ sells out │ time │ plain │ …   (alternating slices, each drained)
//	rest ─ every accepted id fetched singly ─ every row read ─ Judge ─ report
//
// Figures come from the plain slices, in which each user just tries to buy; repeats, rivalling requests of one user and
// look-ups of fresh orders have slices of their own. They are given beside those of GET /api/v1/time of the same
// server, asked by the same client with the same headers in the slices between: the ratio survives a slow or shared
// machine, the bare figure does not.
//
// The package speaks HTTP and imports nothing else of this module. Only with Options.Self, when the servers are children
// of this process, does it also read what they write: the SQLite file in their temporary folder, or in production mode
// ([Stores]) a database made for the run, on stores that hold nothing else.
package bench
