package sandbox

// texts are the words of the cashier page by language.
var texts = map[string]map[string]string{
	"zh": {
		"title": "收银台", "brand": "探店", "note": "模拟支付 · 不会扣款", "amount": "应付金额", "left": "剩余支付时间", "before": "请在此时间前支付", "trade": "交易号",
		"pay": "立即支付", "wrong": "试试出错的情况", "fail": "支付失败", "late": "超时后才到账", "silent": "支付成功但不通知",
		"refunds": "以后退款时", "refundsAtOnce": "立即到账", "refundsSlow": "处理一会儿", "refundsUnknown": "查不到结果", "refundsRefused": "被拒绝",
		"later": "稍后再付", "back": "返回订单",
		"paid": "支付成功", "paidMore": "结果会通知商城，返回订单查看。", "failed": "支付失败", "failedMore": "没有扣款，可以返回订单重新支付。",
		"closed": "交易已关闭", "closedMore": "没有扣款。", "expired": "支付超时", "expiredMore": "没有扣款，订单将自动关闭。",
		"onItsWay": "款项在路上", "onItsWayMore": "将在支付截止之后到账，商城会自动退款。",
	},
	"en": {
		"title": "Cashier", "brand": "Tandian", "note": "Sandbox · no money moves", "amount": "Amount due", "left": "Time left to pay", "before": "Pay before", "trade": "Trade",
		"pay": "Pay now", "wrong": "Try what can go wrong", "fail": "The payment fails", "late": "The money arrives too late", "silent": "Paid, but nobody calls back",
		"refunds": "A later refund", "refundsAtOnce": "is done at once", "refundsSlow": "takes a while", "refundsUnknown": "loses its answers", "refundsRefused": "is refused",
		"later": "Pay later", "back": "Back to the order",
		"paid": "Paid", "paidMore": "The shop is being told; see your order.", "failed": "The payment failed", "failedMore": "Nothing was charged. You can try again from your order.",
		"closed": "This trade is closed", "closedMore": "Nothing was charged.", "expired": "Too late to pay", "expiredMore": "Nothing was charged; the order closes by itself.",
		"onItsWay": "The money is on its way", "onItsWayMore": "It will arrive after the deadline, and the shop will send it back.",
	},
}
