package testenv

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
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
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, nil, err
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil, nil, err
	}
	parent, state = map[int]int{}, map[int]byte{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue // not a process
		}
		ppid, letter, err := stat(pid)
		if err != nil {
			return nil, nil, err
		}
		if letter != 0 {
			parent[pid], state[pid] = ppid, letter
		}
	}
	return parent, state, nil
}

// states returns the state letters of processes. One that has ended has none.
func states(pids []int) (map[int]byte, error) {
	state := map[int]byte{}
	for _, pid := range pids {
		_, letter, err := stat(pid)
		if err != nil {
			return nil, err
		}
		if letter != 0 {
			state[pid] = letter
		}
	}
	return state, nil
}

// stat returns the parent and the state letter of a process. The letter is 0 if the process has
// ended.
func stat(pid int) (ppid int, letter byte, err error) {
	name := "/proc/" + strconv.Itoa(pid) + "/stat"
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, 0, nil // it ended in the meantime
	}
	// "pid (name) state ppid ...", and the name may contain anything.
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 2 {
		return 0, 0, fmt.Errorf("%s: %q", name, b)
	}
	if ppid, err = strconv.Atoi(string(fields[1])); err != nil {
		return 0, 0, fmt.Errorf("%s: %w", name, err)
	}
	return ppid, fields[0][0], nil
}
