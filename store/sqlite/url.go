package sqlite

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
)

// ErrURL says that a URL is not well written. No file was looked at.
var ErrURL = errors.New("sqlite: bad URL")

// OpenURL returns a store for a URL: "sqlite:" is distlock/locks.db in the user's folder for state ($XDG_STATE_HOME, or
// ~/.local/state), "sqlite:locks.db" a file in the current folder, and "sqlite:///var/lib/locks.db" one anywhere. Queries are
// "synchronous=full" or "normal", as Options.Full says.
func OpenURL(ctx context.Context, text string) (*Store, error) {
	path, opt, err := parse(text)
	if err != nil {
		return nil, err
	}
	s, err := Open(ctx, path, opt)
	if text == "sqlite:" && errors.Is(err, errFolder) {
		err = fmt.Errorf("%w; or set XDG_STATE_HOME", err)
	}
	return s, err
}

// parse returns the path and the options in a URL.
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
			return "", nil, fmt.Errorf("%w: unknown key %q: did you mean synchronous?", ErrURL, name)
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
	if path == "" {
		path, err = statePath()
	}
	return path, opt, err
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
	return filepath.Join(home, ".local", "state", "distlock", "locks.db"), nil
}
