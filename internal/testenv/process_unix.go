//go:build linux || darwin

package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// settleLimit is the time for signals to take effect. They do so at once on a healthy machine.
const settleLimit = 5 * time.Second

// An account is the user that a server runs as. Nil is the user of the tests.
type account struct{ uid, gid int }

// unprivileged returns the account for servers that refuse to run as root. It is nil if the tests
// do not run as root.
func unprivileged() (*account, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "_postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		return &account{uid, gid}, errors.Join(err1, err2)
	}
	return nil, errors.New("the tests run as root, and there is no user postgres or nobody to run the server as")
}

func (a *account) credential() *syscall.Credential {
	if a == nil {
		return nil
	}
	return &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
}

// own gives a file or folder to the account.
func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return os.Chown(path, a.uid, a.gid)
}

// lockFile locks f for this process, and reports whether it could. The lock ends with the process.
func lockFile(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

// The signals go to all descendants one by one, not to a process group: PostgreSQL's backends have
// their own groups.

func pauseTree(pid int) error {
	// The parent is stopped first, so that it starts no more children. The loop repeats until it
	// finds no child that still runs.
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	return settle(func() (bool, error) {
		tree, err := descend(pid)
		if err != nil {
			return false, err
		}
		still := true
		for _, p := range tree {
			if p.state != 'T' && p.state != 'Z' && p.state != 'X' {
				still = false
				ignoreGone(syscall.Kill(p.pid, syscall.SIGSTOP))
			}
		}
		return still, nil
	})
}

func resumeTree(pid int) error {
	tree, err := descend(pid)
	if err != nil {
		return err
	}
	for _, p := range tree {
		if err := ignoreGone(syscall.Kill(p.pid, syscall.SIGCONT)); err != nil {
			return err
		}
	}
	return nil
}

func killTree(root *os.Process) error {
	// A stopped process can neither start another child nor reap one, so the ids stay valid. The
	// signal takes effect a moment later. Until then the process may start one more child.
	if err := root.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	err := settle(func() (bool, error) {
		state, err := states([]int{root.Pid})
		return slices.Contains([]byte{'T', 'Z', 'X', 0}, state[root.Pid]), err
	})
	if err != nil {
		return errors.Join(err, root.Kill())
	}
	tree, err := descend(root.Pid)
	if err != nil {
		return errors.Join(err, root.Kill())
	}
	for _, p := range slices.Backward(tree) {
		ignoreGone(syscall.Kill(p.pid, syscall.SIGKILL))
	}
	// A killed child is gone when only its process table entry is left. A restarted server must not
	// meet one that still runs.
	var children []int
	for _, p := range tree[1:] {
		children = append(children, p.pid)
	}
	return settle(func() (bool, error) {
		state, err := states(children)
		for _, pid := range children {
			if s, ok := state[pid]; ok && s != 'Z' && s != 'X' {
				return false, err
			}
		}
		return true, err
	})
}

type descendant struct {
	pid   int
	state byte
}

// descend returns the process and all its descendants, parents first.
func descend(pid int) ([]descendant, error) {
	parent, state, err := parents()
	if err != nil {
		return nil, err
	}
	tree := []descendant{{pid, state[pid]}}
	for i := 0; i < len(tree); i++ {
		for child, p := range parent {
			if p == tree[i].pid {
				tree = append(tree, descendant{child, state[child]})
			}
		}
	}
	return tree, nil
}

// settle polls until done returns true.
func settle(done func() (bool, error)) error {
	for end := time.Now().Add(settleLimit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if ok, err := done(); ok || err != nil {
			return err
		}
	}
	return fmt.Errorf("signals had no effect within %v", settleLimit)
}

func ignoreGone(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}
