package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// ErrURL means that a URL is malformed. No file was opened.
var ErrURL = errors.New("sqlite: bad URL")

// OpenURL returns a store for a URL: "sqlite:" is distlock/locks.db in the user's folder for state
// ($XDG_STATE_HOME, or ~/.local/state), "sqlite:locks.db" is a file in the current folder, and
// "sqlite:///var/lib/locks.db" is a file anywhere. The query is "synchronous=full" or
// "synchronous=normal": see [Options].Full. If the URL contains a path, its folder must exist,
// because a typo in it would create a second store that excludes no other process. The folder of
// "sqlite:" is created.
func OpenURL(ctx context.Context, text string) (*Store, error) {
	path, opt, err := parse(text)
	if err != nil {
		return nil, err
	}
	own := path == ""
	if own {
		path, err = statePath()
	} else {
		err = checkFolder(filepath.Dir(path))
	}
	if err != nil {
		return nil, err
	}
	s, err := Open(ctx, path, opt)
	if own && errors.Is(err, errFolder) {
		err = fmt.Errorf("%w; or set XDG_STATE_HOME", err)
	}
	return s, err
}

// checkFolder refuses a folder that does not exist. Open reports any other problem.
func checkFolder(folder string) error {
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("sqlite: there is no folder %s: is it spelled as meant? If so: mkdir -p -m 700 %[1]s", folder)
	}
	return nil
}

// parse returns the path and the options in a URL. The path is empty if the URL has none.
func parse(text string) (path string, opt *Options, err error) {
	u, err := url.Parse(text)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	if u.Scheme != "sqlite" || u.User != nil || u.Fragment != "" {
		return "", nil, fmt.Errorf(`%w: want "sqlite:", "sqlite:FILE" or "sqlite:///FOLDER/FILE"`, ErrURL)
	}
	if u.Host != "" {
		return "", nil, fmt.Errorf("%w: it names a host, %q: a path from the root has three slashes", ErrURL, u.Host)
	}
	opt = &Options{}
	for name, values := range u.Query() {
		switch {
		case name != "synchronous":
			return "", nil, unknownKey(name)
		case len(values) != 1 || values[0] != "full" && values[0] != "normal":
			return "", nil, fmt.Errorf("%w: synchronous is full or normal", ErrURL)
		}
		opt.Full = values[0] == "full"
	}
	path = u.Path
	if u.Opaque != "" {
		if path, err = url.PathUnescape(u.Opaque); err != nil {
			return "", nil, fmt.Errorf("%w: %w", ErrURL, err)
		}
	}
	return path, opt, nil
}

// unknownKey returns an error that suggests a known key.
func unknownKey(name string) error {
	if strings.HasPrefix(name, "sync") {
		return fmt.Errorf("%w: unknown key %.64q: did you mean synchronous?", ErrURL, name)
	}
	return fmt.Errorf("%w: unknown key %.64q: there is synchronous; the command and package open also take lock_ttl and lock_poll",
		ErrURL, name)
}

// statePath returns the default file of this user.
func statePath() (string, error) {
	// The XDG specification requires that a relative path is ignored.
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "distlock", "locks.db"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("sqlite: no folder for the locks of this user: %w: "+
			"set HOME or XDG_STATE_HOME, or name a file, sqlite:///FOLDER/FILE", err)
	}
	// With a relative HOME, every current folder would have its own store, and commands would not
	// exclude each other.
	if !filepath.IsAbs(home) {
		return "", fmt.Errorf("sqlite: no folder for the locks of this user: HOME is %.64q, which is not an absolute path: "+
			"set HOME or XDG_STATE_HOME, or name a file, sqlite:///FOLDER/FILE", home)
	}
	return filepath.Join(home, ".local", "state", "distlock", "locks.db"), nil
}
