package testenv

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// setAttributes makes the kernel send the signal death to the process when the thread that started
// it ends. It also runs the process as another user.
func setAttributes(cmd *exec.Cmd, death os.Signal, as *account) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: death.(syscall.Signal), Credential: as.credential()}
}

// parents returns the parent of every process, and its state character.
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
		ppid, char, err := stat(pid)
		if err != nil {
			return nil, nil, err
		}
		if char != 0 {
			parent[pid], state[pid] = ppid, char
		}
	}
	return parent, state, nil
}

// states returns the state characters of processes. A process that has ended has none.
func states(pids []int) (map[int]byte, error) {
	state := map[int]byte{}
	for _, pid := range pids {
		_, char, err := stat(pid)
		if err != nil {
			return nil, err
		}
		if char != 0 {
			state[pid] = char
		}
	}
	return state, nil
}

// stat returns the parent and the state character of a process. The character is 0 if the process
// has ended.
func stat(pid int) (ppid int, char byte, err error) {
	name := "/proc/" + strconv.Itoa(pid) + "/stat"
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, 0, nil // the process ended in the meantime
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
