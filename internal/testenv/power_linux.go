package testenv

import (
	_ "embed" // the library that servers are started with
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

//go:embed testdata/power.c
var powerSource []byte

// A Power is the power supply of a server's machine. When it fails, data that the server wrote and
// did not sync is lost. A Kill leaves such data in the memory of the kernel. Power handles files
// that grow, such as those of Redis. It does not undo overwritten bytes.
type Power struct {
	tb     testing.TB
	server *Server
	record string           // the inode and length of each file that the server synced
	begun  map[uint64]int64 // by inode: the length of a file that existed before
}

// NewPower takes control of the power of a server that the test started. The server is restarted,
// with its data if it keeps any. NewPower needs Linux and a C compiler.
func NewPower(t testing.TB, s *Server) *Power {
	t.Helper()
	p := &Power{tb: t, server: s, record: s.path("synced"), begun: map[uint64]int64{}}
	check(t, os.WriteFile(p.record, nil, 0o600))
	preload(t, "power.c", powerSource, []*Server{s}, "DISTLOCK_TEST_POWER="+p.record)
	p.each(func(_ string, ino uint64, size int64) error {
		p.begun[ino] = size
		return nil
	})
	return p
}

// Fail kills the server, and truncates its files to the length that it had synced.
func (p *Power) Fail() {
	p.tb.Helper()
	p.server.Kill()
	synced := p.begun
	records, err := os.ReadFile(p.record)
	check(p.tb, err)
	for ; len(records) >= 16; records = records[16:] {
		ino, size := binary.NativeEndian.Uint64(records), int64(binary.NativeEndian.Uint64(records[8:]))
		synced[ino] = max(synced[ino], size)
	}
	p.each(func(path string, ino uint64, size int64) error {
		if size <= synced[ino] {
			return nil
		}
		p.tb.Logf("testenv: %d bytes of %s were not on the disk", size-synced[ino], filepath.Base(path))
		return os.Truncate(path, synced[ino])
	})
}

// each calls f for every file of the server.
func (p *Power) each(f func(path string, ino uint64, size int64) error) {
	p.tb.Helper()
	err := filepath.WalkDir(p.server.data(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return f(path, info.Sys().(*syscall.Stat_t).Ino, info.Size())
	})
	check(p.tb, err)
}
