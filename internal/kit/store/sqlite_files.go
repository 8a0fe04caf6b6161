package store

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// DamagedError says what is wrong with a database's files, and what to do.
type DamagedError struct{ What, Remedy string }

func (e *DamagedError) Error() string { return e.What + "; " + e.Remedy }

// CheckSQLite looks for what SQLite itself would overlook in the files of a database that was not closed. It returns a
// DamagedError if they are shorter than they were, and costs the reading of the write-ahead log. Call it before the
// database is opened, as the only process that uses it.
//
// SQLite takes a log that ends early for one whose last transaction was never committed. After a crash that is right, for
// a commit is answered when its frames are on disk. But if the file has been cut off since, by a copy that stopped or by
// the repair of a file system, it forgets in silence what was committed. The index beside it, which a killed process
// leaves behind, is written after the frames are on disk: whatever it counts must be there. Likewise each page of the
// database must lie in its file or in the log.
func CheckSQLite(path string) error {
	log, err := readLog(path + "-wal")
	if err != nil {
		return err
	}
	index, err := readIndex(path + "-shm")
	if err != nil {
		return err
	}
	if e := index.lost(log); e > 0 {
		remedy := "restore the whole folder from a backup"
		if index.copied <= log.committed {
			remedy += ", or, to go on without what is missing, remove " + path + "-shm"
		}
		return &DamagedError{fmt.Sprintf("%s-wal is cut off or damaged: of %d committed frames the last %d are missing, and with them what was accepted last", path, index.committed, e), remedy}
	}
	return checkPages(path, log)
}

// frameLog is a write-ahead log: https://www.sqlite.org/fileformat2.html#the_write_ahead_log.
type frameLog struct {
	salt      [8]byte // which generation of the log this is; zero without a readable header
	committed uint32  // frames up to the last commit that can be read
	pages     map[uint32]struct{}
	total     uint32 // pages of the database after that commit
	size      int64  // bytes of a page
}

const (
	logHeader   = 32
	frameHeader = 24
)

// readLog reads a log up to its last commit as SQLite would. A file that isn't there is an empty log.
func readLog(path string) (l frameLog, err error) {
	l.pages = map[uint32]struct{}{}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return l, err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<20)
	var head [logHeader]byte
	if ok, err := fill(in, head[:]); !ok {
		return l, err
	}
	magic, size := binary.BigEndian.Uint32(head[:]), binary.BigEndian.Uint32(head[8:])
	var order binary.ByteOrder = binary.LittleEndian
	if magic&1 == 1 {
		order = binary.BigEndian
	}
	sum := checksum{}.add(order, head[:24])
	if magic&^1 != 0x377f0682 || size < 512 || size > 64<<10 || sum != storedSum(head[24:]) {
		return l, nil
	}
	copy(l.salt[:], head[16:])
	l.size = int64(size)
	frame := make([]byte, frameHeader+size)
	var waiting []uint32 // pages of frames since the last commit
	for n := uint32(1); ; n++ {
		if ok, err := fill(in, frame); !ok {
			return l, err
		}
		sum = sum.add(order, frame[:8]).add(order, frame[frameHeader:])
		page, commit := binary.BigEndian.Uint32(frame), binary.BigEndian.Uint32(frame[4:])
		if page == 0 || !bytes.Equal(frame[8:16], l.salt[:]) || sum != storedSum(frame[16:]) {
			return l, nil
		}
		waiting = append(waiting, page)
		if commit == 0 {
			continue
		}
		for _, p := range waiting {
			l.pages[p] = struct{}{}
		}
		waiting, l.committed, l.total = waiting[:0], n, commit
	}
}

// fill reads the whole of b; false = the file ends before.
func fill(r io.Reader, b []byte) (bool, error) {
	_, err := io.ReadFull(r, b)
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return false, nil
	}
	return err == nil, err
}

// checksum is that of SQLite's logs.
type checksum [2]uint32

// add goes on with b, whose length is a multiple of 8.
func (s checksum) add(order binary.ByteOrder, b []byte) checksum {
	for ; len(b) >= 8; b = b[8:] {
		s[0] += order.Uint32(b) + s[1]
		s[1] += order.Uint32(b[4:]) + s[0]
	}
	return s
}

func storedSum(b []byte) checksum {
	return checksum{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])}
}

// logIndex is what the index of a log remembers: https://www.sqlite.org/walformat.html#the_wal_index_file_format.
type logIndex struct {
	salt      [8]byte
	committed uint32 // frames of committed transactions, all of them on disk
	copied    uint32 // of these, how many have become pages of the database
}

// readIndex reads an index that was left behind; it is zero if there is none, or none that can be trusted: after a loss of
// power it may be old or half written.
func readIndex(path string) (x logIndex, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return x, nil
	}
	if err != nil {
		return x, err
	}
	defer f.Close()
	const header = 48 // there are two, one written after the other
	var b [2*header + 4]byte
	if ok, err := fill(f, b[:]); !ok {
		return x, err
	}
	native := binary.NativeEndian
	sum := checksum{}.add(native, b[:40])
	if !bytes.Equal(b[:header], b[header:2*header]) || native.Uint32(b[:]) != 3007000 || b[12] != 1 || sum != (checksum{native.Uint32(b[40:]), native.Uint32(b[44:])}) {
		return x, nil
	}
	copy(x.salt[:], b[32:])
	x.committed, x.copied = native.Uint32(b[16:]), native.Uint32(b[2*header:])
	return x, nil
}

// lost is how many committed frames the log lacks. An index of another generation than the log's can't tell.
func (x logIndex) lost(l frameLog) uint32 {
	switch {
	case x.committed <= l.committed, l.salt != ([8]byte{}) && l.salt != x.salt:
		return 0
	case l.salt == ([8]byte{}) && x.copied == x.committed: // removed on purpose: closing was cut short
		return 0
	}
	return x.committed - l.committed
}

// checkPages makes sure that no page is missing.
func checkPages(path string, l frameLog) error {
	f, err := os.Open(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var length int64
	var head [100]byte
	if err == nil {
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		length = info.Size()
		if _, err := fill(f, head[:]); err != nil {
			return err
		}
	}
	if length <= 1 { // SQLite would throw the log away
		if l.committed > 0 {
			return &DamagedError{path + " is gone or empty, though its log isn't", "restore the whole folder from a backup, or remove " + path + "-wal to begin anew"}
		}
		return nil
	}
	size, total := l.size, l.total
	if l.committed == 0 {
		if size = int64(binary.BigEndian.Uint16(head[16:])); size == 1 {
			size = 64 << 10
		}
		if size < 512 || !bytes.Equal(head[24:28], head[92:96]) {
			return nil // SQLite will say if it can't read this
		}
		total = binary.BigEndian.Uint32(head[28:])
	}
	whole := length / size
	for page := whole + 1; page <= int64(total); page++ {
		if _, ok := l.pages[uint32(page)]; !ok && page != 1<<30/size+1 { // that one is never used
			return &DamagedError{fmt.Sprintf("%s is cut off: it ends after %d of %d pages", path, whole, total), "restore the whole folder from a backup"}
		}
	}
	return nil
}
