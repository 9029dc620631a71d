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

// A Power is the power of a server's machine. When it fails, what the server wrote and did not sync is lost, which a Kill leaves in the
// memory of the kernel. It knows of files that grow, such as those of Redis: what is overwritten stays.
type Power struct {
	tb     testing.TB
	server *Server
	record string           // what the server synced
	begun  map[uint64]int64 // by its number: the length of a file that was there before
}

// NewPower takes over the power of a server that the test started. The server is restarted, with its data if it keeps any. It needs
// Linux and a C compiler.
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

// Fail kills the server, and cuts its files to what it had synced.
func (p *Power) Fail() {
	p.tb.Helper()
	p.server.Kill()
	synced := p.begun
	lines, err := os.ReadFile(p.record)
	check(p.tb, err)
	for ; len(lines) >= 16; lines = lines[16:] {
		ino, size := binary.NativeEndian.Uint64(lines), int64(binary.NativeEndian.Uint64(lines[8:]))
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

// each goes through the files of the server.
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
