package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// A processTree is the child and its descendants. On a terminal they share a process group with
// this process and the rest of its pipeline, so that the tree has to find them one by one.
type processTree struct{ known []process }

// A process is identified by its number and its start time, in ticks since the boot. A later
// process may have the same number.
type process struct {
	pid   int
	began uint64
}

// signal sends a signal to the child and to all its descendants. The tree remembers the processes
// that it has found, because their parents may end before them.
func (t *processTree) signal(child int, s syscall.Signal) {
	t.refresh(child)
	if s == syscall.SIGKILL {
		// A stopped process starts no other process. The loop ends when it finds no new one.
		for before := -1; before != len(t.known); t.refresh(child) {
			before = len(t.known)
			t.send(syscall.SIGSTOP)
		}
	}
	t.send(s)
}

func (t *processTree) send(s syscall.Signal) {
	for _, k := range t.known {
		_ = syscall.Kill(k.pid, s)
	}
}

// refresh removes processes that have ended and adds new ones, parents first.
func (t *processTree) refresh(child int) {
	all := processes()
	t.known = slices.DeleteFunc(t.known, func(k process) bool { return all[k.pid].began != k.began })
	if p, ok := all[child]; ok && p.parent == os.Getpid() && !slices.Contains(t.known, process{child, p.began}) {
		t.known = append(t.known, process{child, p.began})
	}
	for i := 0; i < len(t.known); i++ {
		for pid, p := range all {
			if k := (process{pid, p.began}); p.parent == t.known[i].pid && !slices.Contains(t.known, k) {
				t.known = append(t.known, k)
			}
		}
	}
}

// A stat is a part of the status of a process.
type stat struct {
	parent int
	began  uint64
}

// processes returns the running processes that are visible to this process.
func processes() map[int]stat {
	all := map[int]stat{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well formed
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended meanwhile
		}
		// The line is "pid (name) state parent ...". The name may contain any character. The 20th
		// field after the name is the start time.
		f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil || len(f) < 20 || f[0][0] == 'Z' || f[0][0] == 'X' {
			continue
		}
		parent, _ := strconv.Atoi(string(f[1]))
		began, _ := strconv.ParseUint(string(f[19]), 10, 64)
		all[pid] = stat{parent, began}
	}
	return all
}
