package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A process file system made by hand: the owner, a stranger, and a socket of another port.
func TestPortOwner(t *testing.T) {
	proc := t.TempDir()
	file := func(name, content string) {
		name = filepath.Join(proc, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	file("net/tcp", `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 777 1 0 100 0 0 10 0
   1: 0100007F:1F90 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 778 1 0 100 0 0 10 0
   2: 00000000:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 779 1 0 100 0 0 10 0
`)
	for pid, socket := range map[string]string{"12": "778", "34": "777", "56": "779"} {
		file(pid+"/comm", "program-"+pid+"\n")
		dir := filepath.Join(proc, pid, "fd")
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.Symlink("socket:["+socket+"]", filepath.Join(dir, "3"))); err != nil {
			t.Fatal(err)
		}
	}
	if got, ok := PortOwner(proc, 8080); !ok || got != (Owner{34, "program-34"}) {
		t.Errorf("got %+v %v", got, ok)
	}
	if got, ok := PortOwner(proc, 8082); ok {
		t.Errorf("nobody listens on 8082, got %+v", got)
	}
	if got, ok := PortOwner(filepath.Join(proc, "none"), 8080); ok {
		t.Errorf("without a process file system nobody is found, got %+v", got)
	}
}

func TestReachable(t *testing.T) {
	for in, want := range map[string]string{":9090": "localhost:9090", "0.0.0.0:9090": "localhost:9090", "[::]:9090": "localhost:9090", "127.0.0.1:9090": "127.0.0.1:9090", "db1:1": "db1:1"} {
		if got := Reachable(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}
