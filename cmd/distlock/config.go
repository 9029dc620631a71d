package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/distlock/distlock/open"
)

// maxFile bounds files that are read whole, in bytes.
const maxFile = 1 << 20

// A config knows where the value of a flag came from.
type config struct {
	from map[string]origin
	file string // the configuration file that was read, if any

	shared []string // files that were read, and that their group may write to
}

// An origin is where a value came from. A higher one wins.
type origin int

const (
	fromDefault origin = iota
	fromFile
	fromEnv
	fromFlag
)

// personal are the flags that belong to one call: no file and no variable sets them.
var personal = []string{"help", "config", "command", "yes", "reason", "kind"}

// once is a flag that may be given once.
type once struct {
	pflag.Value
	set bool
}

func (o *once) Set(s string) error {
	if o.set {
		return errors.New("it is given twice")
	}
	o.set = true
	return o.Value.Set(s)
}

func onceEach(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Value.Type() != "stringArray" {
			f.Value = &once{Value: f.Value}
		}
		// Help does not print a zero as a default, but knows it by the type, which once hides. To leave such a flag
		// out is something else than to give it 0s.
		if f.DefValue == "0s" {
			f.DefValue = ""
		}
	})
}

// envName is the variable of a flag.
func envName(flag string) string {
	return "DISTLOCK_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// configure gives every flag that was not given the value of its variable, or of the file.
func (a *app) configure(c *cobra.Command) error {
	values, err := a.readConfig(c)
	if err != nil {
		return err
	}
	a.config.from = map[string]origin{}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		env, has := os.LookupEnv(envName(f.Name))
		switch {
		case err != nil || slices.Contains(personal, f.Name):
		case f.Changed:
			a.config.from[f.Name] = fromFlag
		case has && env == "":
			// An empty DISTLOCK_STORE must not send locks to another store than was meant.
			err = usage("%s is empty: unset it, or give it a value", envName(f.Name))
		case has:
			a.config.from[f.Name] = fromEnv
			if e := f.Value.Set(env); e != nil {
				err = usage("%s: %s", envName(f.Name), open.Redact(e.Error()))
			}
		default:
			for _, v := range values[f.Name] {
				a.config.from[f.Name] = fromFile
				if e := f.Value.Set(v); e != nil {
					err = usage("%s: %s: %s", a.config.file, f.Name, open.Redact(e.Error()))
				}
			}
		}
	})
	return err
}

// readConfig reads the configuration file: flags and their values.
func (a *app) readConfig(c *cobra.Command) (map[string][]string, error) {
	path, asked := c.Flags().Lookup("config").Value.String(), true
	if env, has := os.LookupEnv("DISTLOCK_CONFIG"); path == "" && has {
		if path = env; env == "" {
			return nil, usage("DISTLOCK_CONFIG is empty: unset it, or name a file")
		}
	}
	if path == "" {
		if c.Flags().Changed("config") {
			return nil, usage("--config is empty")
		}
		dir := os.Getenv("XDG_CONFIG_HOME")
		if !filepath.IsAbs(dir) { // the specification says to ignore one that is relative
			home, err := os.UserHomeDir()
			if err != nil {
				return nil, nil //nolint:nilerr // without a home there is no file in it
			}
			dir = filepath.Join(home, ".config")
		}
		path, asked = filepath.Join(dir, "distlock", "config.toml"), false
	}
	text, open2all, err := a.readFile(path)
	if errors.Is(err, fs.ErrNotExist) && !asked {
		return nil, nil
	}
	if err != nil {
		return nil, usage("configuration: %w", err)
	}
	a.config.file = path
	if bytes.HasPrefix(text, []byte("\xef\xbb\xbf")) {
		return nil, usage("%s begins with a byte order mark: save it as UTF-8 without one", path)
	}
	var raw map[string]any
	if _, err := toml.Decode(string(text), &raw); err != nil {
		var parse toml.ParseError
		if errors.As(err, &parse) { // its text may quote a password
			return nil, usage("%s: line %d is not TOML", path, parse.Position.Line)
		}
		return nil, usage("%s is not TOML", path)
	}
	values, err := flagValues(c.Root(), path, raw)
	if err == nil && open2all && len(values["store"]) == 1 && open.HasSecret(values["store"][0]) {
		err = usage("%s holds a password and everybody may read it: chmod 600 it", path)
	}
	return values, err
}

// flagValues turns a configuration into values of flags. A key that no command has is an error.
func flagValues(root *cobra.Command, path string, raw map[string]any) (map[string][]string, error) {
	known := map[string]bool{}
	for _, c := range append(root.Commands(), root) {
		for _, set := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			set.VisitAll(func(f *pflag.Flag) { known[f.Name] = !slices.Contains(personal, f.Name) })
		}
	}
	values := map[string][]string{}
	for key, v := range raw {
		if !known[key] {
			return nil, usage("%s: unknown key %.64q: keys are the long names of flags", path, key)
		}
		switch v := v.(type) {
		case string, int64, bool:
			values[key] = []string{fmt.Sprint(v)}
		case []any:
			for _, one := range v {
				values[key] = append(values[key], fmt.Sprint(one))
			}
		default:
			return nil, usage("%s: %s is neither a text, a number, true, false nor a list", path, key)
		}
	}
	return values, nil
}

// readFile reads a small file, and reports whether everybody may read it. One that everybody may
// write to is refused: others would choose the store. One that its group may write to is noted for
// doctor: the group may be that of the user alone.
func (a *app) readFile(path string) (text []byte, everybody bool, err error) {
	f, err := os.Open(path) //nolint:gosec // the user names the file
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	if info.Mode().IsRegular() && info.Mode().Perm()&0o002 != 0 && os.PathSeparator == '/' {
		return nil, false, fmt.Errorf("%s may be written by everybody: chmod o-w it", path)
	}
	if info.Mode().IsRegular() && info.Mode().Perm()&0o020 != 0 && os.PathSeparator == '/' {
		a.config.shared = append(a.config.shared, path)
	}
	text, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return text, info.Mode().Perm()&0o004 != 0 && os.PathSeparator == '/', err
}

// storeURL returns the URL of the store, from a file if that is what was said.
func (a *app) storeURL(c *cobra.Command) (string, error) {
	url := c.Flags().Lookup("store").Value.String()
	file, has := os.LookupEnv("DISTLOCK_STORE_FILE")
	switch {
	case a.config.from["store"] == fromFlag && url == "":
		return "", usage("--store is empty")
	case a.config.from["store"] >= fromEnv || !has:
	case file == "":
		return "", usage("DISTLOCK_STORE_FILE is empty: unset it, or name a file")
	default:
		url = "@" + file
	}
	path, ok := strings.CutPrefix(url, "@")
	if !ok {
		if url == "" {
			return defaultStore, nil
		}
		return url, nil
	}
	text, everybody, err := a.readFile(path)
	if err != nil {
		return "", usage("store: %w", err)
	}
	url = strings.TrimSpace(string(text))
	switch {
	case url == "" || strings.ContainsAny(url, "\n\r"):
		return "", usage("%s must have one line, the URL of the store", path)
	case everybody && open.HasSecret(url):
		return "", usage("%s holds a password and everybody may read it: chmod 600 it", path)
	}
	return url, nil
}
