package sqlite

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// writeLock is the byte of the -shm file that SQLite locks for a transaction that writes.
const writeLock = "120"

// user describes the process that has the file to itself, for an error message: "process 4711
// (backup), which is stopped". It returns "" if the process is not known, or is this process. The
// kernel lists locks by inode and byte.
func user(path string) string {
	info, err := os.Stat(path + "-shm")
	if err != nil {
		return ""
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	inode := ":" + strconv.FormatUint(st.Ino, 10)
	// The kernel returns the list in pieces, and may omit a line while locks are added and removed.
	for range 5 {
		if who := writer(inode); who != "" {
			return who
		}
	}
	return ""
}

// writer looks for a process in the list of locks.
func writer(inode string) string {
	f, err := os.Open("/proc/locks")
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // it was only read
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// 1: POSIX  ADVISORY  WRITE 4711 00:1a:2345 120 120
		words := strings.Fields(lines.Text())
		if len(words) != 8 || words[3] != "WRITE" || !strings.HasSuffix(words[5], inode) || words[6] != writeLock {
			continue
		}
		if pid, err := strconv.Atoi(words[4]); err == nil && pid > 0 && pid != os.Getpid() {
			return process(pid)
		}
	}
	return ""
}

// process describes a process by its number, name and state.
func process(pid int) string {
	what := fmt.Sprintf("process %d", pid)
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	begin, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if err != nil || begin < 0 || end < begin {
		return what
	}
	what += fmt.Sprintf(" (%s)", stat[begin+1:end])
	if state := strings.TrimSpace(string(stat[end+1:])); strings.HasPrefix(state, "T") || strings.HasPrefix(state, "t") {
		what += ", which is stopped"
	}
	return what
}
