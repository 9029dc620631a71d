package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// setAttributes runs the process as another user. There is nothing like Linux's signal at the
// parent's death: the process outlives a test binary that is killed.
func setAttributes(cmd *exec.Cmd, _ os.Signal, as *account) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as.credential()}
}

// parents returns the parent of every process, and its state character.
func parents() (parent map[int]int, state map[int]byte, err error) {
	out, err := exec.Command("/bin/ps", "-A", "-o", "pid=,ppid=,state=").Output()
	if err != nil {
		return nil, nil, fmt.Errorf("ps: %w", err)
	}
	parent, state = map[int]int{}, map[int]byte{}
	for line := range strings.Lines(string(out)) {
		var pid, ppid int
		var chars string
		if _, err := fmt.Sscan(line, &pid, &ppid, &chars); err != nil {
			return nil, nil, fmt.Errorf("ps: %q: %w", line, err)
		}
		parent[pid], state[pid] = ppid, chars[0]
	}
	return parent, state, nil
}

// states returns the state characters of processes. A process that has ended has none.
func states([]int) (map[int]byte, error) {
	_, state, err := parents()
	return state, err
}
