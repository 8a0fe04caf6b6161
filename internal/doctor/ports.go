package doctor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Port examines whether a server could listen on addr, the value of the setting --flag.
func Port(flag, addr string) Examination {
	return func(ctx context.Context, r *Report) {
		check := "port " + flag
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			return // Settings says so
		}
		if port == "0" {
			r.ok(check, "any free one")
			return
		}
		var config net.ListenConfig
		l, err := config.Listen(ctx, "tcp", addr)
		switch {
		case err == nil:
			_ = l.Close() // it was only a question
			r.ok(check, "%s is free", addr)
		case errors.Is(err, syscall.EADDRINUSE):
			r.taken(ctx, check, flag, addr)
		case errors.Is(err, os.ErrPermission):
			r.fail(check, addr+" may be opened by root only", "choose a port of 1024 or more, or allow it (setcap cap_net_bind_service=+ep tandian)")
		default:
			r.fail(check, fmt.Sprintf("%s can't be listened on: %s", addr, cause(err)), "give --"+flag+" an address of this machine")
		}
	}
}

// taken is fine if it is by a server of ours.
func (r *Report) taken(ctx context.Context, check, flag, addr string) {
	if state, ok := runningServer(ctx, addr); ok {
		r.ok(check, "%s is held by a running tandian, %s", addr, state)
		return
	}
	port := portOf(addr)
	by := "a process that can't be seen from here"
	if o, ok := PortOwner("/proc", port); ok {
		by = fmt.Sprintf("pid %d (%s)", o.PID, o.Name)
	}
	host, _, _ := net.SplitHostPort(addr)
	r.fail(check, fmt.Sprintf("%s is in use by %s", addr, by), fmt.Sprintf("stop it, or try --%s %s", flag, net.JoinHostPort(host, strconv.Itoa(FreePort(host, port)))))
}

func portOf(addr string) int {
	_, text, _ := net.SplitHostPort(addr)
	n, _ := net.LookupPort("tcp", text)
	return n
}

// runningServer asks whoever listens on addr whether it is a server of ours, which its answer about readiness shows.
func runningServer(ctx context.Context, addr string) (state string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+Reachable(addr)+"/readyz", nil)
	if err != nil {
		return "", false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", false
	}
	defer res.Body.Close()
	var answer struct {
		State  string
		Checks map[string]string
	}
	err = json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(&answer)
	return answer.State, err == nil && answer.State != "" && answer.Checks != nil
}

// Reachable is where to ask a listener bound to addr: one on all interfaces also listens on the loopback.
func Reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort("localhost", port)
	}
	return addr
}

// FreePort returns the first port above taken that can be listened on now, or the next one if none of the next 20 can.
func FreePort(host string, taken int) int {
	for port := taken + 1; port <= min(taken+20, 65535); port++ {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			_ = l.Close() // it was only a question
			return port
		}
	}
	return taken%65535 + 1
}

// Owner is a process.
type Owner struct {
	PID  int
	Name string
}

// PortOwner finds who listens on a TCP port by the process file system at proc, which is /proc. Without root only
// processes of the same user can be seen; elsewhere than on Linux nobody can.
func PortOwner(proc string, port int) (Owner, bool) {
	sockets := map[string]bool{}
	for _, table := range []string{"tcp", "tcp6"} {
		for _, inode := range listeners(filepath.Join(proc, "net", table), port) {
			sockets["socket:["+inode+"]"] = true
		}
	}
	if len(sockets) == 0 {
		return Owner{}, false
	}
	links, _ := filepath.Glob(filepath.Join(proc, "[0-9]*", "fd", "*")) // the pattern is well formed
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || !sockets[target] {
			continue // gone meanwhile, not ours to read, or something else
		}
		dir := filepath.Dir(filepath.Dir(link))
		pid, err := strconv.Atoi(filepath.Base(dir))
		name, nameErr := os.ReadFile(filepath.Join(dir, "comm"))
		if err == nil && nameErr == nil {
			return Owner{pid, strings.TrimSpace(string(name))}, true
		}
	}
	return Owner{}, false
}

// listeners returns the inodes of the sockets that listen on port, from a table like /proc/net/tcp:
//
//	sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode …
//	 0: 0100007F:2382 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 12345 …
func listeners(table string, port int) (inodes []string) {
	const listening = "0A"
	f, err := os.Open(table)
	if err != nil {
		return nil
	}
	defer f.Close()
	suffix := fmt.Sprintf(":%04X", port)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if col := strings.Fields(lines.Text()); len(col) > 9 && col[3] == listening && strings.HasSuffix(col[1], suffix) {
			inodes = append(inodes, col[9])
		}
	}
	return inodes
}
