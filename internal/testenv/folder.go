package testenv

import (
	"os"
	"path/filepath"
	"time"
)

const (
	folderPrefix = "distlock-env-"
	lockName     = "in-use"
	// A folder is created before it is locked. Newer folders are left alone, so that none is
	// removed between the two steps.
	orphanAge = time.Minute
)

// A folder is a temporary folder. If this run cannot remove it, the next run does. Its path is
// short, since the path of a unix socket is limited to about 100 bytes.
type folder struct {
	path string
	lock *os.File // locked while this process lives
}

func newFolder() (*folder, error) {
	sweep(os.TempDir())
	path, err := os.MkdirTemp("", folderPrefix)
	if err != nil {
		return nil, err
	}
	// Servers that run as another user must be able to reach their files inside.
	if err := os.Chmod(path, 0o711); err != nil {
		return nil, err
	}
	lock, err := os.Create(filepath.Join(path, lockName))
	if err != nil {
		return nil, err
	}
	lockFile(lock)
	return &folder{path, lock}, nil
}

func (f *folder) remove() error {
	f.lock.Close()
	return os.RemoveAll(f.path)
}

// sweep removes the folders that killed test binaries left in dir. The lock of a dead process is
// free. Process ids would be misleading where containers share the folder.
func sweep(dir string) {
	orphans, _ := filepath.Glob(filepath.Join(dir, folderPrefix+"*", lockName))
	for _, name := range orphans {
		info, err := os.Lstat(name)
		if err != nil || !info.Mode().IsRegular() || time.Since(info.ModTime()) < orphanAge {
			continue
		}
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if lockFile(f) {
			reclaim(filepath.Dir(name))
			os.RemoveAll(filepath.Dir(name))
		}
		f.Close()
	}
}

// A folder may contain, besides files, a mounted disk and the name of a network.
const (
	diskName    = "disk"
	networkName = "network"
)

// reclaim releases, as far as it can, the kernel resources of a killed test binary.
func reclaim(dir string) {
	if _, err := os.Lstat(filepath.Join(dir, diskName)); err == nil {
		_ = unmount(filepath.Join(dir, diskName))
	}
	if name, err := os.ReadFile(filepath.Join(dir, networkName)); err == nil {
		n := &Network{name: string(name)}
		if n.find() == nil {
			_ = n.run(n.ip, "netns", "del", n.name)
		}
	}
}
