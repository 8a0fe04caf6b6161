package api

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ClientIP returns how to tell the real client address (W29): the peer's own, unless the peer is a configured proxy;
// then the last address of X-Forwarded-For that is not a proxy's.
func ClientIP(proxies []netip.Prefix) func(*http.Request) string {
	trusted := func(a netip.Addr) bool {
		return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	return func(r *http.Request) string {
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil {
			return r.RemoteAddr
		}
		addr := peer.Addr().Unmap()
		if len(proxies) == 0 || !trusted(addr) {
			return addr.String()
		}
		hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		for _, hop := range slices.Backward(hops) {
			a, err := netip.ParseAddr(strings.TrimSpace(hop))
			if err != nil {
				break // what is left of a forged entry proves nothing
			}
			addr = a.Unmap()
			if !trusted(addr) {
				break
			}
		}
		return addr.String()
	}
}
