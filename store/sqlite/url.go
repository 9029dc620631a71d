package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ErrURL means that a URL is malformed. No file was opened.
var ErrURL = errors.New("sqlite: bad URL")

// OpenURL returns a store for a URL: "sqlite:" is distlock/locks.db in the user's folder for state
// ($XDG_STATE_HOME, or ~/.local/state), "sqlite:locks.db" is a file in the current folder, and
// "sqlite:///var/lib/locks.db" is a file anywhere. The query may have "synchronous=full" or
// "synchronous=normal", see [Options].Full, and "holders=remote", see [Options].Remote. If the URL
// contains a path, its folder must exist,
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
	if opt, err = parseOptions(u.Query()); err != nil {
		return "", nil, err
	}
	path = u.Path
	if u.Opaque != "" {
		if path, err = url.PathUnescape(u.Opaque); err != nil {
			return "", nil, fmt.Errorf("%w: %w", ErrURL, err)
		}
	}
	return path, opt, nil
}

// keys are the keys of a query, with their values.
var keys = map[string][]string{"synchronous": {"full", "normal"}, "holders": {"remote"}}

func parseOptions(q url.Values) (*Options, error) {
	for name, values := range q {
		switch allowed, known := keys[name]; {
		case !known:
			return nil, unknownKey(name)
		case len(values) != 1 || !slices.Contains(allowed, values[0]):
			return nil, fmt.Errorf("%w: %s is %s", ErrURL, name, strings.Join(allowed, " or "))
		}
	}
	opt := &Options{Full: q.Get("synchronous") == "full", Remote: q.Get("holders") == "remote"}
	if opt.Remote && q.Get("synchronous") == "normal" {
		return nil, fmt.Errorf("%w: holders=remote needs synchronous=full, which is its default: "+
			"a power failure must not forget the claim of a holder that lives", ErrURL)
	}
	return opt, nil
}

// unknownKey returns an error that suggests a known key.
func unknownKey(name string) error {
	for key := range keys {
		if strings.HasPrefix(name, key[:4]) {
			return fmt.Errorf("%w: unknown key %.64q: did you mean %s?", ErrURL, name, key)
		}
	}
	return fmt.Errorf("%w: unknown key %.64q: there are synchronous and holders; the command and package open also take lock_ttl and lock_poll",
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
