// Package sqlite is a store in one file that the processes of a host share. It needs no server.
//
// # Time
//
// A claim ends by the clock that counts the time since the host was booted, suspends included
// (CLOCK_BOOTTIME on Linux). All processes of the host share this clock, and nothing sets it. A
// jump of the time of day frees nothing. A reboot frees all claims, because no holder survives it.
// If holders are on other hosts, as those of a lock server are, use [Options].Remote.
//
// The kernel has an identifier for each boot. [Open] fails if the identifier is hidden. It also
// fails if the identifier differs from that in the file while another process has the file open.
// Fences (fencing tokens) follow the time of day, and the last fence of each key is in the file.
//
// On macOS the clock is the time since kern.boottime, which the system adjusts when the time of day
// is set. On other systems the clock is the time of day: a jump forward ends claims early, and a
// reboot frees no claim before its time.
//
// # Cost
//
// Acquire and release take 32 us together. The two raw transactions that insert and delete a row
// take 26 us: 0.81 of the raw rate. With [Options].Full both wait for the disk, and the rates are
// equal within the noise (medians of an interleaved run, two cores under load: go test -run '^$'
// -bench Pair).
//
// 50 waiting stores of one process, each with one poll a second, take 1 % of a core in total
// (-bench Idle). 50 processes take 3 % to 4 % (cd bench && go run . cli). From a release in one
// store to the grant in another that waits it takes 0.3 ms (-bench Handover).
//
// A call takes as long with thousands of waiters or shared holders on its key as with a hundred.
//
// # What is not guaranteed
//
// A file that two kernels write, over a network file system or from two virtual machines, excludes
// nothing. Open refuses network file systems as far as it can recognize them.
//
// A container with its own boot identifier (systemd-nspawn, LXC) needs its own file. Open refuses a
// file that processes outside the container have open. If no process has the file open, Open frees
// all claims in it, also claims that processes have left for others, unless the file is for remote
// holders.
//
// Without [Options].Full, a power failure may forget the last claims, which the reboot frees
// anyway. Their fences are then lower than the clock, unless the clock is set back.
//
// A user who can write the file can end every claim in it. If the file is removed while it is in
// use, the store creates a new, empty one. Holders get the loss with their next renewal or release.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/keeper"
)

// Options configure a store. The zero value of each field is its default.
type Options struct {
	// Full makes every call wait until its result is on disk (synchronous=FULL). The default is
	// NORMAL: a power failure may forget the last claims, which the reboot frees anyway.
	Full bool

	// Remote says that holders may be on other hosts, and survive a reboot of this one. When the
	// file is opened for the first time after a reboot, or on another host, claims and queue
	// entries get their whole TTL again. Records keep what is left of their life by the time of
	// day. The reasons of broken claims are forgotten. Remote includes Full. The file remembers it,
	// and it then holds for every program that opens the file, whatever its options are.
	Remote bool

	// Polling turns off the sockets by which processes wake each other. A waiter then polls for
	// releases of other processes. A testing/synctest bubble needs Polling, because virtual time
	// stands still while a goroutine reads from a socket.
	Polling bool
}

// A Store keeps claims in a file.
type Store struct {
	path  string
	opt   Options
	host  host
	clock *keeper.Clock
	boot  time.Duration // the reading of the host's clock when clock read zero

	gate   gate // guards base, closed, sweeps and solos
	base   *base
	closed bool
	sweeps sweeps
	solos  solos

	notifier notifier
}

// A host describes the machine.
type host struct {
	boot    string               // the boot identifier; empty: unknown
	elapsed func() time.Duration // a clock that all processes of this boot share

	// direct makes the store call elapsed for every reading. Without it, the store calls elapsed
	// once and then counts with its own clock. That is faster, and virtual in a synctest bubble.
	// But only on Linux does its own clock count the time asleep and run like the host's clock.
	direct bool

	kind func(folder string) (fileSystem, error)
}

// Open returns a store in the file at path. If the file or its folder does not exist, Open creates
// it, for this user only. Open refuses a file that other users can read or write, a symbolic link,
// a read-only file and a file on a network file system.
func Open(ctx context.Context, path string, opt *Options) (*Store, error) {
	h, err := thisHost()
	if err != nil {
		return nil, err
	}
	return open(ctx, path, opt, h)
}

func open(ctx context.Context, path string, opt *Options, h host) (*Store, error) {
	if path == "" {
		return nil, errors.New("sqlite: the path is empty")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	s := &Store{path: path, host: h, clock: keeper.NewClock()}
	if opt != nil {
		s.opt = *opt
	}
	s.boot = offset(h.elapsed, s.clock.Now)
	s.notifier = notifier{folder: path + wakeSuffix, name: socketName(), off: s.opt.Polling, done: make(chan struct{})}
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	if s.base, err = s.connect(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// offset returns by how much the clock of the host is ahead of ours. The two cannot be read at one
// instant, so offset uses the reading with the shortest pause.
func offset(theirs, ours func() time.Duration) time.Duration {
	var best time.Duration
	least := time.Duration(-1)
	for range 5 {
		before := ours()
		d := theirs() - before
		if pause := ours() - before; least < 0 || pause < least {
			best, least = d, pause
		}
	}
	return best
}

// Close closes the store. Its claims stay in the file.
func (s *Store) Close() error { return s.shut(s.drop) }

// leaveLimit is the longest write-ahead log that Leave leaves behind, in bytes. The next Open reads
// all of it.
const leaveLimit = 256 << 10

// Leave is [Store.Close] for a process that exits right after the call. It leaves the open file to
// the operating system, and the write-ahead log next to the file. Close moves the log into the file
// if no other process has the file open, which waits for the disk four times. The next process that
// opens the file finds everything, as after a process that was killed. If the log is long, Leave
// calls Close.
func (s *Store) Leave() error {
	if log, err := os.Stat(s.path + "-wal"); err != nil || log.Size() > leaveLimit {
		return s.Close()
	}
	return s.shut(func() error { return nil })
}

// shut closes the store, and calls end to close its file.
func (s *Store) shut(end func() error) error {
	s.notifier.close()
	if err := s.gate.enter(context.Background(), time.Time{}, true); err != nil {
		return err
	}
	s.closed = true
	err := end()
	s.gate.leave()
	s.notifier.wg.Wait() // after leave, because keepObserving may wait at the gate
	return err
}

// Path returns the path of the file.
func (s *Store) Path() string { return s.path }

// Features declares every feature.
func (s *Store) Features() driver.Features { return features() }

func features() driver.Features {
	return driver.Features{
		Name: "sqlite", Fence: true, Floor: true, Count: true, Queue: true, Value: true, Keep: true,
		Expiry: true, Detached: true, AnyServer: true,
	}
}

// now reads the clock for TTLs: the time since the host was booted.
func (s *Store) now() time.Duration {
	if s.host.direct {
		return s.host.elapsed()
	}
	return s.boot + s.clock.Now()
}

// wall reads the clock for fences: the time of day in microseconds.
func wall() uint64 { return uint64(max(time.Now().UnixMicro(), 1)) }

var _ interface {
	driver.Watcher
	driver.Shower
	driver.Lister
	driver.AllRenewer
	driver.Breaker
	driver.Inspector
} = (*Store)(nil)
