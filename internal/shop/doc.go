// Package shop exists so that people find a place to go: shops and their categories, by word, by category and by
// distance, and who may change them. Vouchers, notes and orders know a shop by its id; what they show of one they get
// as a Card.
//
// # Lists
//
// A list is paged by keyset: the cursor holds the sort value and the id of the last row shown, the next page starts
// behind exactly that pair. Rows with equal values are ordered by id, so however many there are, and whatever is
// inserted meanwhile, no row comes twice and none is left out.
//
// # Nearby
//
// Sorting by distance never touches SQL until the page is known: an R-tree in this process (nearby.go) walks the shops
// outward from the caller. It is filled at start, follows every change this process makes, and is rebuilt now and then
// (RefreshNearby) to see what other instances changed. The rows themselves are always read from SQL: a stale index can
// show a new shop late, never a wrong name.
//
// # Who may write
//
// A merchant who opens a shop owns it. Only its owner and operators change it (MayWrite); score, sold and comments are
// results, not input, and no request can carry them. Each change leaves a row in audit_log in the same transaction.
package shop
