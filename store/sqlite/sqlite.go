// Package sqlite is a store in one file, which the processes of a host share with no server.
//
// # Time
//
// A claim ends by the clock that counts since the host was booted, also while it is suspended (CLOCK_BOOTTIME on
// Linux): all processes of the host agree on it, and nobody sets it. A jump of the time of day frees nothing. A
// reboot frees everything: no holder has survived it. The kernel names the boot; where the name is hidden Open says so and does nothing, and
// where it is another one than the file's, Open does so for as long as somebody has the file open. Fences follow the time of day, and the last one of a key is in the file.
// On macOS the clock is the time since kern.boottime, which the system moves along when the
// time of day is set. On other systems it is the time of day: there a jump forward ends claims early, and
// a reboot frees nothing before its time.
//
// # Cost
//
// Acquire and release take 32 us together, and the two raw transactions that insert and delete a row 26 us: 0.81 of the raw rate; with
// Options.Full both wait for the disk, and the rate is the same but for noise (medians of an interleaved run, two cores under load:
// go test -run '^$' -bench Pair). 50 stores of one process that wait take 1 % of a core in all, with a poll a second (-bench Idle), and
// 50 processes 3 % to 4 % (cd bench && go run . cli). From a
// release to the grant in another store that waits is 0.3 ms (-bench Handover).
//
// # What is not guaranteed
//
// A file that two kernels write, by a network file system or in two virtual machines, excludes nobody: network file
// systems are refused as far as they can be told. A container that has a name of its own for the boot (systemd-nspawn, LXC) needs a file of its
// own: it is refused one that others have open, and frees the claims in one that nobody has, those of processes that left them for
// others too. With Options.Full left out, a power failure may forget the last claims, which
// a reboot frees in any case; their fences are then behind the clock, unless it is set back. Whoever may write the file
// can end every claim in it. A file that is removed while it is in use is made anew, empty: holders are told of
// the loss with their next renewal, or when they release.
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

// Options change what a store does. The zero value of each field is its default.
type Options struct {
	// Full makes every answer wait until it is on disk (synchronous=FULL): for holders that outlive the
	// host. The default is NORMAL, where a power failure may forget the last claims.
	Full bool

	// Polling leaves out the sockets by which processes wake each other. Those who wait for another process then
	// ask again from time to time only. A testing/synctest bubble needs it: no virtual time passes
	// while somebody reads from a socket.
	Polling bool
}

// A Store keeps claims in a file.
type Store struct {
	path  string
	opt   Options
	host  host
	clock *keeper.Clock
	boot  time.Duration // what the host's clock said when ours said zero

	gate   gate // guards all below
	base   *base
	closed bool
	sweeps sweeps
	solos  solos

	post post
}

// A host is what the store has to know of the machine.
type host struct {
	boot    string               // differs from boot to boot; empty: unknown
	elapsed func() time.Duration // a clock that all processes of this boot read alike

	// direct has the clock asked every time. Without it, it is asked once and our own counts on, which is quick, and virtual
	// in a synctest bubble; but only on Linux does ours count the time asleep, and go on as theirs does.
	direct bool

	kind func(folder string) (fileSystem, error)
}

// Open returns a store in the file at path. The file and its folder are made if they are not there, for this user
// alone. Others may not be able to read or write a file that is there: then Open says so and does nothing. The file must
// not be a symbolic link, read-only or on a network file system.
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
	s.post = post{folder: path + wakeSuffix, name: socketName(), off: s.opt.Polling, over: make(chan struct{})}
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	if s.base, err = s.connect(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// offset returns by how much the clock of the host is ahead of ours. The two cannot be read at one instant: what
// was read with the shortest pause counts.
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

// Close ends the store. Claims stay as they are.
func (s *Store) Close() error { return s.shut(s.drop) }

// leaveLimit is how long the write-ahead log may be that Leave leaves behind, in bytes. Whoever opens the file next reads all of it.
const leaveLimit = 256 << 10

// Leave is Close for a process that ends right after it. The open file is left to the system, and the log of what was written beside
// the file: to move that to its place, as Close does if nobody else has the file open, is to wait for the disk four times. Whoever opens the file
// next finds all of it, as after a process that was killed. A log that has become long is not left.
func (s *Store) Leave() error {
	if log, err := os.Stat(s.path + "-wal"); err != nil || log.Size() > leaveLimit {
		return s.Close()
	}
	return s.shut(func() error { return nil })
}

// shut ends the store, and its file by what it is given.
func (s *Store) shut(end func() error) error {
	s.post.close()
	if err := s.gate.enter(context.Background(), time.Time{}, true); err != nil {
		return err
	}
	s.closed = true
	err := end()
	s.gate.leave()
	s.post.wg.Wait() // with the gate open, for an onlooker may stand before it
	return err
}

// Path returns the path of the file.
func (s *Store) Path() string { return s.path }

// Features declares everything.
func (s *Store) Features() driver.Features { return features() }

func features() driver.Features {
	return driver.Features{
		Name: "sqlite", Fence: true, Floor: true, Count: true, Queue: true, Value: true, Keep: true,
		Expiry: true, Detached: true, AnyServer: true,
	}
}

// now is the clock for TTLs: the time since the host was booted.
func (s *Store) now() time.Duration {
	if s.host.direct {
		return s.host.elapsed()
	}
	return s.boot + s.clock.Now()
}

// wall is the clock for fences.
func wall() uint64 { return uint64(max(time.Now().UnixMicro(), 1)) }

var _ interface {
	driver.Watcher
	driver.Shower
	driver.Lister
	driver.AllRenewer
	driver.Breaker
	driver.Inspector
} = (*Store)(nil)
