// Package demo exists so that the program has something to show the moment it starts: the town of 青梧 (Qingwu), which
// is on no map, with its shops, vouchers, people and pictures, and flash sales that are always on.
//
// Seed builds the town once, in one transaction; on a database that has it, it changes nothing. KeepFresh then keeps the
// sales moving, whatever the time is and however long the program was off: at least three live (one about to end),
// three to come (after a pause one that starts within a minute), and ended ones behind. It only ever adds sales, at
// most maxPerHour; old ones stay as they are, orders refer to them. Their vouchers are taken off the shelf after a
// while, so that the shops' pages stay short.
//
// The pictures are drawn by the program in draw from fragments made for this project; nothing is fetched from anywhere.
package demo

//go:generate go run ./draw pictures
