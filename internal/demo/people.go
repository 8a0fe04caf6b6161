package demo

import "tandian/internal/kit/identity"

// Account is a sign-in of the town. Password is empty for those who only sign in by code.
type Account struct {
	Role     identity.Role
	Phone    string
	Password string
	Nickname string
	Avatar   string
}

// password of the demo accounts is public knowledge; a server with demo data is no place for secrets.
const password = "tandian-demo"

// Accounts lists the four people whose sign-in is shown to whoever starts the program.
func Accounts() []Account {
	return []Account{
		{identity.Operator, "13800000001", password, "青梧运营", avatarPath(1)},
		{identity.Merchant, "13800000002", password, "老周掌柜", avatarPath(2)},
		{identity.Clerk, "13800000003", password, "店员小棠", avatarPath(3)},
		{identity.Shopper, "13800000004", password, "爱吃的小满", avatarPath(4)},
	}
}

// neighbours are more shoppers of the town.
func neighbours() []Account {
	names := []string{"半糖去冰", "周末去哪儿", "面食研究员", "山里的风", "二两小酒", "一只阿柴", "今天也要早睡", "慢慢走啊"}
	list := make([]Account, len(names))
	for i, name := range names {
		list[i] = Account{Role: identity.Shopper, Phone: "1380000001" + string(rune('0'+i)), Nickname: name, Avatar: avatarPath(5 + i)}
	}
	return list
}
