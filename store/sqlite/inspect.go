package sqlite

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/distlock/distlock/driver"
)

// Inspect tells what the file is.
func (s *Store) Inspect(ctx context.Context) (info driver.Info, err error) {
	err = s.read(ctx, func(t *tx) error {
		info = driver.Info{
			Identity: "sqlite:" + t.base.identity, Age: s.age(t), Version: "SQLite " + t.base.version,
			Findings: append(s.findings(), s.durability(t.base), s.timing()),
		}
		return nil
	})
	return info, err
}

// durability finds out what a power failure forgets.
func (s *Store) durability(b *base) driver.Finding {
	switch {
	case b.journal != "wal":
		return driver.Finding{
			Level: driver.Warning, What: "the journal mode is " + b.journal,
			Means: "every answer takes longer, and readers wait for writers", Cure: "use a file system with shared memory",
		}
	case b.synchrony == "2":
		return driver.Finding{Level: driver.OK, What: "every answer is on disk before it is given (synchronous=FULL)"}
	case s.host.boot == "":
		return driver.Finding{
			Level: driver.Warning, What: "a power failure may forget the last claims (synchronous=NORMAL)",
			Means: "whoever holds one of them, on a system that does not tell its boots, may meet another that was granted after it",
			Cure:  "open it with synchronous=full (Options.Full)",
		}
	}
	return driver.Finding{Level: driver.OK, What: "a power failure may forget the last claims, which the reboot frees in any case (synchronous=NORMAL)"}
}

// timing finds out what the clock of the host is worth.
func (s *Store) timing() driver.Finding {
	if s.host.boot != "" {
		return driver.Finding{Level: driver.OK, What: "claims end by the time since the boot"}
	}
	return driver.Finding{
		Level: driver.Warning, What: "this system does not tell when it was booted: claims end by the time of day",
		Means: "a clock that is set forward ends claims early", Cure: "let the clock be slewed, not set, or check fences",
	}
}

// findings tells where the file lies, and who may open it.
func (s *Store) findings() []driver.Finding {
	rights := driver.Finding{Level: driver.OK, What: "only its user may open the file"}
	file, err := os.Lstat(s.path)
	switch {
	case err != nil || runtime.GOOS == "windows":
		rights = driver.Finding{
			What: "the rights of the file could not be seen", Means: "others may be able to end claims",
			Cure: "make sure that only its user may open the file",
		}
	case file.Mode().Perm()&0o077 != 0:
		rights = driver.Finding{
			Level: driver.Danger, What: fmt.Sprintf("others may open the file (mode %04o)", file.Mode().Perm()),
			Means: "whoever writes to it can end every claim", Cure: "chmod go-rwx",
		}
	}
	// Two environments, such as a login and cron, may name two files by "sqlite:".
	path := driver.Finding{Level: driver.OK, What: "the file is " + s.path}
	return []driver.Finding{path, s.place(), rights, s.folder(), s.room()}
}

// folder tells who may replace the file.
func (s *Store) folder() driver.Finding {
	info, err := os.Stat(filepath.Dir(s.path))
	switch {
	case err != nil || runtime.GOOS == "windows":
		return driver.Finding{
			What: "the rights of the folder could not be seen", Means: "others may be able to replace the file",
			Cure: "make sure that only its user may write to the folder",
		}
	case info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0:
		return driver.Finding{
			Level: driver.Danger, What: fmt.Sprintf("others may write to the folder (mode %04o)", info.Mode().Perm()),
			Means: "they can replace the file, and end every claim", Cure: "chmod go-w the folder",
		}
	}
	return driver.Finding{Level: driver.OK, What: "others cannot replace the file"}
}

// place tells where the file lies.
func (s *Store) place() driver.Finding {
	kind, err := s.host.kind(filepath.Dir(s.path))
	if err == nil && kind.known {
		return driver.Finding{Level: driver.OK, What: "the file is " + s.path + ", on a local file system (" + kind.name + ")"}
	}
	what := "the file system of " + s.path + " could not be seen"
	if kind.name != "" {
		what = "the file system of " + s.path + ", " + kind.name + ", is not one that is known here"
	}
	return driver.Finding{
		What: what, Means: "on a network file system processes of other machines are not excluded",
		Cure: "make sure that the folder is on a local disk",
	}
}

// leastRoom is how much room a disk should have. The log of a busy file grows to some megabytes.
const leastRoom = 16 << 20

// room tells whether the disk is nearly full.
func (s *Store) room() driver.Finding {
	const means = "when the disk is full nothing can be claimed or renewed, and holders lose what they have"
	switch left, known := roomIn(filepath.Dir(s.path)); {
	case !known:
		return driver.Finding{What: "the room on the disk could not be seen", Means: means, Cure: "make sure that there is some"}
	case left < leastRoom:
		return driver.Finding{
			Level: driver.Warning, What: fmt.Sprintf("the disk has only %d kB left", left>>10), Means: means, Cure: "make room",
		}
	}
	return driver.Finding{Level: driver.OK, What: "the disk has room"}
}
