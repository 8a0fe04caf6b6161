package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"tandian/internal/doctor"
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
	remedy := fmt.Sprintf("%s %s", flag, net.JoinHostPort(host, strconv.Itoa(doctor.FreePort(host, addr.Port))))
	o, ok := doctor.PortOwner("/proc", addr.Port)
	if !ok {
		return fmt.Sprintf("%d 已被占用，看不到是哪个进程；试 %s (the port is in use, by a process we can't see; try that)", addr.Port, remedy)
	}
	return fmt.Sprintf("%d 被 pid %d(%s) 占用；试 %s (the port is in use; try that)", addr.Port, o.PID, o.Name, remedy)
}
