package app

import (
	"fmt"
	"io"
	"strings"

	"golang.org/x/text/width"
)

// Info is what a running App tells about itself: addresses as they were bound, stores with their versions.
type Info struct {
	Version  string
	Mode     string // "embedded" or "production"
	URL      string // public listener, without a slash at the end
	AdminURL string // admin listener, likewise
	Stores   []string
	Accounts []DemoAccount // empty without demo data
}

// DemoAccount is a sign-in of the demo town. It is public knowledge and exists only with demo data.
type DemoAccount struct {
	Role     string // an identity.Role
	Phone    string
	Password string
}

// Banner writes what somebody who has just started the program wants to know, in both languages, in at most 80
// columns where a Chinese character takes two.
func Banner(w io.Writer, i Info) {
	var b strings.Builder
	fmt.Fprintf(&b, "\n  探店 tandian %s · %s\n\n", i.Version, modeText(i.Mode))
	line := func(zh, en, value string) { fmt.Fprintf(&b, "  %s%s%s\n", pad(zh, 6), pad(en, 10), value) }
	line("商城", "shop", i.URL+"/")
	line("接口", "API", i.URL+"/docs")
	line("指标", "metrics", i.AdminURL+"/metrics")
	zh, en := "存储", "stores"
	for _, s := range i.Stores {
		line(zh, en, s)
		zh, en = "", ""
	}
	if len(i.Accounts) > 0 {
		b.WriteString("\n  演示账号，密码公开，勿用于公网 · demo accounts, not for the internet\n")
	}
	for _, a := range i.Accounts {
		line(roleText(a.Role), a.Role, a.Phone+"  "+a.Password)
	}
	b.WriteString("\n  Ctrl-C 退出 · quit\n\n")
	_, _ = io.WriteString(w, b.String()) // a closed terminal is no reason not to serve
}

func modeText(mode string) string {
	if mode == "embedded" {
		return "单机模式 embedded"
	}
	return "集群模式 " + mode
}

func roleText(role string) string {
	switch role {
	case "operator":
		return "运营"
	case "merchant":
		return "商家"
	case "clerk":
		return "店员"
	}
	return "顾客"
}

// pad fills s with spaces to n columns of a terminal.
func pad(s string, n int) string {
	return s + strings.Repeat(" ", max(0, n-columns(s)))
}

// columns is how wide a terminal shows s.
func columns(s string) int {
	n := 0
	for _, r := range s {
		switch width.LookupRune(r).Kind() {
		case width.EastAsianWide, width.EastAsianFullwidth:
			n += 2
		default:
			n++
		}
	}
	return n
}
