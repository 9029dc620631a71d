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

// Inspect describes the file, and reports risks.
func (s *Store) Inspect(ctx context.Context) (info driver.Info, err error) {
	err = s.read(ctx, func(t *tx) error {
		info = driver.Info{
			Identity: "sqlite:" + t.base.identity, Age: s.age(t), Version: "SQLite " + t.base.version,
			Findings: append(s.findings(), s.durability(t.base), s.timing()),
		}
		if t.base.remote {
			info.Findings = append(info.Findings, driver.Finding{
				Level: driver.LevelOK,
				What:  "holders may be on other hosts: after a reboot claims get their whole TTL again (holders=remote)",
			})
		}
		return nil
	})
	return info, err
}

// durability reports which claims a power failure may forget.
func (s *Store) durability(b *base) driver.Finding {
	switch {
	case b.journal != "wal":
		return driver.Finding{
			Level: driver.LevelWarning, What: "the journal mode is " + b.journal,
			Means: "every answer takes longer, and readers wait for writers", Cure: "use a file system with shared memory",
		}
	case b.synchrony == "2":
		return driver.Finding{Level: driver.LevelOK, What: "every result is on disk before it is returned (synchronous=FULL)"}
	case s.host.boot == "":
		return driver.Finding{
			Level: driver.LevelWarning, What: "a power failure may forget the last claims (synchronous=NORMAL)",
			Means: "this system has no boot identifier: a holder of a forgotten claim may meet another holder that was granted after it",
			Cure:  "open it with synchronous=full (Options.Full)",
		}
	}
	return driver.Finding{
		Level: driver.LevelOK, What: "a power failure may forget the last claims, which the reboot frees in any case (synchronous=NORMAL)",
	}
}

// timing reports which clock ends claims.
func (s *Store) timing() driver.Finding {
	if s.host.boot != "" {
		return driver.Finding{Level: driver.LevelOK, What: "claims end by the time since the boot"}
	}
	return driver.Finding{
		Level: driver.LevelWarning, What: "this system has no boot identifier: claims end by the time of day",
		Means: "a clock that is set forward ends claims early", Cure: "let the clock be slewed, not set, or check fences",
	}
}

// findings reports where the file is, and which users may open it.
func (s *Store) findings() []driver.Finding {
	rights := driver.Finding{Level: driver.LevelOK, What: "only its user may open the file"}
	file, err := os.Lstat(s.path)
	switch {
	case err != nil || runtime.GOOS == "windows":
		rights = driver.Finding{
			What: "the permissions of the file could not be read", Means: "others may be able to end claims",
			Cure: "make sure that only its user may open the file",
		}
	case file.Mode().Perm()&0o077 != 0:
		rights = driver.Finding{
			Level: driver.LevelDanger, What: fmt.Sprintf("others may open the file (mode %04o)", file.Mode().Perm()),
			Means: "a user who writes to it can end every claim", Cure: "chmod go-rwx",
		}
	}
	// In two environments, such as a login and cron, "sqlite:" may be two files.
	path := driver.Finding{Level: driver.LevelOK, What: "the file is " + s.path}
	return []driver.Finding{path, s.location(), rights, s.folder(), s.space()}
}

// folder reports whether other users may replace the file.
func (s *Store) folder() driver.Finding {
	info, err := os.Stat(filepath.Dir(s.path))
	switch {
	case err != nil || runtime.GOOS == "windows":
		return driver.Finding{
			What: "the permissions of the folder could not be read", Means: "others may be able to replace the file",
			Cure: "make sure that only its user may write to the folder",
		}
	case info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0:
		return driver.Finding{
			Level: driver.LevelDanger, What: fmt.Sprintf("others may write to the folder (mode %04o)", info.Mode().Perm()),
			Means: "they can replace the file, and end every claim", Cure: "chmod go-w the folder",
		}
	}
	return driver.Finding{Level: driver.LevelOK, What: "others cannot replace the file"}
}

// location reports on which file system the file is.
func (s *Store) location() driver.Finding {
	kind, err := s.host.kind(filepath.Dir(s.path))
	if err == nil && kind.known {
		return driver.Finding{Level: driver.LevelOK, What: "the file system is local (" + kind.name + ")"}
	}
	what := "the file system of " + s.path + " could not be read"
	if kind.name != "" {
		what = "the file system of " + s.path + ", " + kind.name + ", is not known"
	}
	return driver.Finding{
		What: what, Means: "on a network file system processes of other machines are not excluded",
		Cure: "make sure that the folder is on a local disk",
	}
}

// minSpace is how much free space a disk should have. The log of a busy file grows to some
// megabytes.
const minSpace = 16 << 20

// space reports whether the disk is nearly full.
func (s *Store) space() driver.Finding {
	const means = "on a full disk no claim can be granted or renewed, and holders lose their claims"
	switch left, known := spaceIn(filepath.Dir(s.path)); {
	case !known:
		return driver.Finding{What: "the free space of the disk could not be read", Means: means, Cure: "make sure that there is some"}
	case left < minSpace:
		return driver.Finding{
			Level: driver.LevelWarning, What: fmt.Sprintf("the disk has only %d kB left", left>>10), Means: means, Cure: "free some space",
		}
	}
	return driver.Finding{Level: driver.LevelOK, What: "the disk has free space"}
}
