package api

import (
	"net/http/httptest"
	"net/netip"
	"testing"
)

func TestClientIP(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for _, tc := range []struct {
		name, peer, forwarded, want string
		proxies                     []netip.Prefix
	}{
		{"W29: a client can't choose its address", "198.51.100.7:1", "1.2.3.4", "198.51.100.7", proxies},
		{"nor without any proxy configured", "10.0.0.1:1", "1.2.3.4", "10.0.0.1", nil},
		{"a proxy is believed", "10.0.0.1:1", "1.2.3.4", "1.2.3.4", proxies},
		{"the last hop that is not a proxy counts", "10.0.0.1:1", "6.6.6.6, 1.2.3.4, 10.0.0.2", "1.2.3.4", proxies},
		{"garbage leaves the peer", "10.0.0.1:1", "x", "10.0.0.1", proxies},
		{"IPv4 in IPv6", "[::ffff:198.51.100.7]:1", "", "198.51.100.7", proxies},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = tc.peer
			r.Header.Set("X-Forwarded-For", tc.forwarded)
			if got := ClientIP(tc.proxies)(r); got != tc.want {
				t.Fatalf("got %s, want %s", got, tc.want)
			}
		})
	}
}
