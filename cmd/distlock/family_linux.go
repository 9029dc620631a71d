package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// A family is a child and its descendants. On a terminal they share a group with us and with the rest of our
// pipeline, so that they have to be found one by one.
type family struct{ known []kin }

// A kin is a process. The time at which it began, in ticks since the boot, tells it from a later one with
// the same number.
type kin struct {
	pid   int
	began uint64
}

// signal sends to the child and to all that descend from it. Those that were found once stay known, since their parents may end
// before them.
func (f *family) signal(child int, s syscall.Signal) {
	f.look(child)
	if s == syscall.SIGKILL {
		// A process that is stopped starts no other. So those who are found last are the last.
		for before := -1; before != len(f.known); f.look(child) {
			before = len(f.known)
			f.send(syscall.SIGSTOP)
		}
	}
	f.send(s)
}

func (f *family) send(s syscall.Signal) {
	for _, k := range f.known {
		_ = syscall.Kill(k.pid, s)
	}
}

// look forgets those that have ended and finds those that have begun, parents first.
func (f *family) look(child int) {
	all := processes()
	f.known = slices.DeleteFunc(f.known, func(k kin) bool { return all[k.pid].began != k.began })
	if p, ok := all[child]; ok && p.parent == os.Getpid() && !slices.Contains(f.known, kin{child, p.began}) {
		f.known = append(f.known, kin{child, p.began})
	}
	for i := 0; i < len(f.known); i++ {
		for pid, p := range all {
			if k := (kin{pid, p.began}); p.parent == f.known[i].pid && !slices.Contains(f.known, k) {
				f.known = append(f.known, k)
			}
		}
	}
}

type process struct {
	parent int
	began  uint64
}

// processes are all that this host shows us and that have not ended.
func processes() map[int]process {
	all := map[int]process{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well formed
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		// "pid (name) state parent ...", and the name may have anything in it. The 20th after it is the time of the start.
		f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil || len(f) < 20 || f[0][0] == 'Z' || f[0][0] == 'X' {
			continue
		}
		parent, _ := strconv.Atoi(string(f[1]))
		began, _ := strconv.ParseUint(string(f[19]), 10, 64)
		all[pid] = process{parent, began}
	}
	return all
}
