package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// explain turns an error into what stands on stderr. A port that is taken gets one line that says by whom and what to
// try; everything else speaks for itself.
func explain(err error) string {
	var op *net.OpError
	if !errors.Is(err, syscall.EADDRINUSE) || !errors.As(err, &op) {
		return err.Error()
	}
	addr, ok := op.Addr.(*net.TCPAddr)
	if !ok {
		return err.Error()
	}
	flag, host := "--addr", ""
	if addr.IP.IsLoopback() {
		flag, host = "--admin-addr", addr.IP.String()
	}
	remedy := fmt.Sprintf("%s %s", flag, net.JoinHostPort(host, strconv.Itoa(freePort(host, addr.Port))))
	o, ok := portOwner("/proc", addr.Port)
	if !ok {
		return fmt.Sprintf("%d 已被占用，看不到是哪个进程；试 %s (the port is in use, by a process we can't see; try that)", addr.Port, remedy)
	}
	return fmt.Sprintf("%d 被 pid %d(%s) 占用；试 %s (the port is in use; try that)", addr.Port, o.pid, o.name, remedy)
}

// freePort returns the first port above taken that can be listened on now, or the next one if none of the next 20 can.
func freePort(host string, taken int) int {
	for port := taken + 1; port <= min(taken+20, 65535); port++ {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			_ = l.Close() // it was only a question
			return port
		}
	}
	return taken%65535 + 1
}

type owner struct {
	pid  int
	name string
}

// portOwner finds who listens on a TCP port by the process file system at proc. Without root only processes of the
// same user can be seen; elsewhere than on Linux nobody can.
func portOwner(proc string, port int) (owner, bool) {
	sockets := map[string]bool{}
	for _, table := range []string{"tcp", "tcp6"} {
		for _, inode := range listeners(filepath.Join(proc, "net", table), port) {
			sockets["socket:["+inode+"]"] = true
		}
	}
	if len(sockets) == 0 {
		return owner{}, false
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
			return owner{pid, strings.TrimSpace(string(name))}, true
		}
	}
	return owner{}, false
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
