// Package voucher exists to say what can be bought: a shop's vouchers, and the rows of their flash sales. The plain
// voucher is a price and a promise (pay ¥99, get ¥198 worth of dinner); a sale puts one voucher up with limited stock
// in a window. What is left of the stock, in SQL, is the truth that orders are written against (sale.go); who may take
// a unit is decided above, in flashsale.
//
// # Rules
//
// One never pays more than the face value. While a sale of the voucher is coming or running its two amounts stay as
// they are: buyers were promised them, and reservations under way carry the price. A voucher taken off the shelf is
// hidden from the public; what was bought of it stays good.
//
// # Who may write
//
// Whoever may write the shop (Owners). Each change leaves a row in audit_log in the same transaction.
package voucher
