//go:build unix

package sqlite

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// longest is how many bytes the path of a socket may have on every system.
	longest = 100

	// staleStep is how many sockets of other processes listen examines.
	staleStep = 64
)

// A socket receives hints from other processes.
type socket struct {
	conn   *net.UnixConn
	path   string
	folder *os.File // open if the path leads through it; see short
}

// listen opens a socket, and removes the sockets of dead processes.
func listen(folder, name string) (*socket, error) {
	switch err := os.Mkdir(folder, 0o700); {
	case err == nil:
		giveTo(folder, strings.TrimSuffix(folder, wakeSuffix))
	case !errors.Is(err, os.ErrExist):
		return nil, err
	}
	sweepSockets(folder)
	s := &socket{path: filepath.Join(folder, name)}
	address, dir, err := short(folder, name)
	if err != nil {
		return nil, err
	}
	s.folder = dir
	if s.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"}); err != nil {
		s.closeFolder()
		return nil, err
	}
	return s, nil
}

// giveTo makes the owner of the file the owner of a folder that root has created, as SQLite does
// with its log. Otherwise the owner could not be woken there, and would poll. giveTo uses a file
// descriptor: with a path, the owner of the parent folder could make root give away another file.
func giveTo(folder, file string) {
	if os.Geteuid() != 0 {
		return
	}
	dir, err := unix.Open(folder, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(dir) }()
	var st unix.Stat_t
	if unix.Lstat(file, &st) == nil {
		_ = unix.Fchown(dir, int(st.Uid), int(st.Gid))
	}
}

// short returns a path to a socket that is not too long for the system. If necessary, the path
// leads through an open folder, which the caller must keep open while it uses the path.
func short(folder, name string) (string, *os.File, error) {
	if path := filepath.Join(folder, name); len(path) <= longest {
		return path, nil, nil
	}
	dir, err := os.Open(folder)
	if err != nil {
		return "", nil, err
	}
	path := filepath.Join("/proc/self/fd", strconv.Itoa(int(dir.Fd())), name)
	if _, err := os.Stat(filepath.Dir(path)); err != nil { // only Linux has this folder
		dir.Close()
		return "", nil, err
	}
	return path, dir, nil
}

func (s *socket) receive(deliver func(hint string)) {
	buf := make([]byte, 64)
	for {
		n, err := s.conn.Read(buf)
		if err != nil {
			return // closed
		}
		deliver(string(buf[:n]))
	}
}

func (s *socket) close() {
	s.conn.Close()
	os.Remove(s.path)
	s.closeFolder()
}

func (s *socket) closeFolder() {
	if s.folder != nil {
		s.folder.Close()
	}
}

// sendHint sends a hint to a socket, unless the socket would block.
func sendHint(folder, name, hint string) error {
	address, dir, err := short(folder, name)
	if err != nil {
		return err
	}
	if dir != nil {
		defer dir.Close()
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	unix.CloseOnExec(fd)
	return unix.Sendto(fd, []byte(hint), unix.MSG_DONTWAIT, &unix.SockaddrUnix{Name: address})
}

// sweepSockets removes some sockets that no process listens to.
func sweepSockets(folder string) {
	dir, err := os.Open(folder)
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(staleStep)
	for _, name := range names {
		if err := sendHint(folder, name, ""); errors.Is(err, unix.ECONNREFUSED) {
			os.Remove(filepath.Join(folder, name))
		}
	}
}
