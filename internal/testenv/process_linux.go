package testenv

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// setAttributes makes the kernel send death to the process when the thread that started
// it ends, and runs it as another user.
func setAttributes(cmd *exec.Cmd, death os.Signal, as *account) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: death.(syscall.Signal), Credential: as.credential()}
}

// parents returns the parent of every process, and the state letter of each.
func parents() (parent map[int]int, state map[int]byte, err error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, nil, err
	}
	parent, state = map[int]int{}, map[int]byte{}
	for _, name := range stats {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // it ended in the meantime
		}
		// "pid (name) state ppid ...", and the name may contain anything.
		end := bytes.LastIndexByte(b, ')')
		var letter string
		var ppid int
		if _, err := fmt.Sscanf(string(b[end+1:]), " %s %d", &letter, &ppid); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			return nil, nil, err
		}
		parent[pid], state[pid] = ppid, letter[0]
	}
	return parent, state, nil
}
