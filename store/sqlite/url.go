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

// ErrURL says that a URL is not well written. No file was looked at.
var ErrURL = errors.New("sqlite: bad URL")

// OpenURL returns a store for a URL: "sqlite:" is distlock/locks.db in the user's folder for state ($XDG_STATE_HOME, or
// ~/.local/state), "sqlite:locks.db" a file in the current folder, and "sqlite:///var/lib/locks.db" one anywhere. Queries are
// "synchronous=full" or "normal", as Options.Full says. The folder of a file that the URL names must be there: with a typo in it
// there would be a second store, and nobody excluded. That of "sqlite:" is made.
func OpenURL(ctx context.Context, text string) (*Store, error) {
	path, opt, err := parse(text)
	if err != nil {
		return nil, err
	}
	own := path == ""
	if own {
		path, err = statePath()
	} else {
		err = there(filepath.Dir(path))
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

// there refuses a folder that is missing. What else is the matter with it Open says.
func there(folder string) error {
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("sqlite: there is no folder %s: is it spelled as meant? If so: mkdir -p -m 700 %[1]s", folder)
	}
	return nil
}

// parse returns the path and the options in a URL. The path is empty if it names none.
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

// unknownKey names the key that may have been meant.
func unknownKey(name string) error {
	if strings.HasPrefix(name, "sync") {
		return fmt.Errorf("%w: unknown key %.64q: did you mean synchronous?", ErrURL, name)
	}
	return fmt.Errorf("%w: unknown key %.64q: there is synchronous; the command and package open also take lock_ttl and lock_poll", ErrURL, name)
}

// statePath is the file of a user who names none.
func statePath() (string, error) {
	// A relative path there is to be ignored, says the XDG specification.
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "distlock", "locks.db"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("sqlite: no folder for the locks of this user: %w: set HOME or XDG_STATE_HOME, or name a file, sqlite:///FOLDER/FILE", err)
	}
	// With a relative one there would be a store in every folder that a command is started in, and nobody excluded.
	if !filepath.IsAbs(home) {
		return "", fmt.Errorf("sqlite: no folder for the locks of this user: HOME is %.64q, which is not a whole path: set HOME or XDG_STATE_HOME, or name a file, sqlite:///FOLDER/FILE", home)
	}
	return filepath.Join(home, ".local", "state", "distlock", "locks.db"), nil
}
