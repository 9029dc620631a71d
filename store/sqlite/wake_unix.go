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

	// staleStep is how many sockets of others are looked at when one is made.
	staleStep = 64
)

// A socket hears news from other processes.
type socket struct {
	conn   *net.UnixConn
	path   string
	folder *os.File // kept open for a path through it; nil if there was no need
}

// listen makes a socket, and takes away those of dead processes.
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

// giveTo gives a folder that root has made to the owner of the file, as SQLite does with its log:
// the owner could not be woken there otherwise, and would poll. By a path the owner of the folder
// around it could make root give away something else.
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

// short returns a path to a socket that is not too long for the system: if need be, one through an open folder, which
// must stay open meanwhile.
func short(folder, name string) (string, *os.File, error) {
	if path := filepath.Join(folder, name); len(path) <= longest {
		return path, nil, nil
	}
	dir, err := os.Open(folder)
	if err != nil {
		return "", nil, err
	}
	path := filepath.Join("/proc/self/fd", strconv.Itoa(int(dir.Fd())), name)
	if _, err := os.Stat(filepath.Dir(path)); err != nil { // only Linux has these
		dir.Close()
		return "", nil, err
	}
	return path, dir, nil
}

func (s *socket) receive(hear func(string)) {
	buf := make([]byte, 64)
	for {
		n, err := s.conn.Read(buf)
		if err != nil {
			return // closed
		}
		hear(string(buf[:n]))
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

// tell sends news to a socket, if it takes them at once.
func tell(folder, name, news string) error {
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
	return unix.Sendto(fd, []byte(news), unix.MSG_DONTWAIT, &unix.SockaddrUnix{Name: address})
}

// sweepSockets takes away some sockets that nobody listens to.
func sweepSockets(folder string) {
	dir, err := os.Open(folder)
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(staleStep)
	for _, name := range names {
		if err := tell(folder, name, ""); errors.Is(err, unix.ECONNREFUSED) {
			os.Remove(filepath.Join(folder, name))
		}
	}
}
