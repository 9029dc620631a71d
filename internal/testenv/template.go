package testenv

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// fromTemplate fills a data folder with a copy of a folder that was initialized for an earlier
// server of the same version. The copy takes a tenth of the time. The first server runs initialize,
// and leaves a copy in the cache of the user. identify gives the server of a copy a unique
// identity; nil: it needs none.
func fromTemplate(program, data string, as *account, initialize func() error, identify func(data string) error) error {
	cache, err := os.UserCacheDir()
	if err != nil {
		return initialize() // this user has no cache
	}
	version, err := exec.Command(program, "--version").Output()
	if err != nil {
		return err
	}
	name := strings.Join(strings.Fields(string(version)), "-")
	folder := filepath.Join(cache, "distlock", "test", strings.ReplaceAll(name, "/", "-"))
	if _, err := os.Stat(folder); err == nil {
		return copyTemplate(folder, data, as, identify)
	}
	if err := initialize(); err != nil {
		return err
	}
	saveTemplate(data, folder)
	return nil
}

// saveTemplate keeps a copy of a fresh data folder. If several processes do so at once, one
// succeeds. A failure does no harm: the next server initializes its own folder again.
func saveTemplate(data, folder string) {
	if os.MkdirAll(filepath.Dir(folder), 0o700) != nil {
		return
	}
	tmp, err := os.MkdirTemp(filepath.Dir(folder), "new-")
	if err != nil {
		return
	}
	if os.CopyFS(tmp, os.DirFS(data)) != nil || os.Rename(tmp, folder) != nil {
		os.RemoveAll(tmp)
	}
}

// copyTemplate fills a data folder, and gives the server a unique identity.
func copyTemplate(folder, data string, as *account, identify func(data string) error) error {
	if err := os.CopyFS(data, os.DirFS(folder)); err != nil {
		return err
	}
	if identify != nil {
		if err := identify(data); err != nil {
			return err
		}
	}
	return filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := os.FileMode(0o600)
		if d.IsDir() {
			mode = 0o700
		}
		return errors.Join(os.Chmod(path, mode), as.own(path))
	})
}

// renameCluster gives a data folder another system identifier. PostgreSQL uses it to distinguish
// servers. It is at the start of pg_control, which ends with a checksum, and in the header of the
// first WAL file.
func renameCluster(data string) error {
	control := filepath.Join(data, "global", "pg_control")
	b, err := os.ReadFile(control)
	if err != nil {
		return err
	}
	end := checksumAt(b)
	if end < 0 {
		return errors.New("testenv: pg_control has no checksum")
	}
	old := bytes.Clone(b[:8])
	rand.Read(b[:7]) // the highest byte stays, so that the number is positive
	binary.LittleEndian.PutUint32(b[end:], crc32.Checksum(b[:end], castagnoli))
	logs, err := filepath.Glob(filepath.Join(data, "pg_wal", "0*"))
	if err != nil || len(logs) != 1 {
		return errors.Join(err, errors.New("testenv: a fresh server has one WAL file"))
	}
	wal, err := os.OpenFile(logs[0], os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer wal.Close()
	const offset = 24 // of xlp_sysid in XLogLongPageHeaderData
	found := make([]byte, 8)
	if _, err := wal.ReadAt(found, offset); err != nil || !bytes.Equal(found, old) {
		return errors.Join(err, errors.New("testenv: the WAL has another identifier than pg_control"))
	}
	_, err = wal.WriteAt(b[:8], offset)
	return errors.Join(err, os.WriteFile(control, b, 0o600))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksumAt returns the offset of the checksum, which differs between versions, or -1.
func checksumAt(b []byte) int {
	for end := 8; end+4 <= min(len(b), 512); end += 4 {
		if crc32.Checksum(b[:end], castagnoli) == binary.LittleEndian.Uint32(b[end:]) {
			return end
		}
	}
	return -1
}
