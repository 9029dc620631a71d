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

// maxFile is the largest size of a file that is read, in bytes.
const maxFile = 1 << 20

// A config records the origin of each flag's value.
type config struct {
	from map[string]origin
	file string // the configuration file that was read, if any

	shared []string // files that were read and are writable by their group
}

// An origin is the source of a flag's value. The value with the highest origin wins.
type origin int

const (
	fromDefault origin = iota
	fromFile
	fromEnv
	fromFlag
)

// personal are the flags that belong to one call. No configuration file and no variable can set
// them.
var personal = []string{"help", "config", "command", "yes", "reason", "kind", "insecure-no-auth", "insecure-no-tls", "allow", "expires"}

// A once is the value of a flag that may be given once only.
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
		// Help prints no default of zero, but it recognizes zero by the type of the value, which
		// once hides. A flag that is left out does not mean the same as 0s.
		if f.DefValue == "0s" {
			f.DefValue = ""
		}
	})
}

// envName returns the name of the environment variable of a flag.
func envName(flag string) string {
	return "DISTLOCK_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// configure sets every flag that was not given to the value of its environment variable or, without
// one, to the value in the configuration file.
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
			// With an empty DISTLOCK_STORE, locks must not go to the default store.
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

// readConfig reads the configuration file. It returns the values of flags by their names.
func (a *app) readConfig(c *cobra.Command) (map[string][]string, error) {
	path, explicit := c.Flags().Lookup("config").Value.String(), true
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
		if !filepath.IsAbs(dir) { // the XDG specification says to ignore a relative path
			home, err := os.UserHomeDir()
			if err != nil {
				return nil, nil //nolint:nilerr // without a home directory there is no configuration file
			}
			dir = filepath.Join(home, ".config")
		}
		path, explicit = filepath.Join(dir, "distlock", "config.toml"), false
	}
	text, everybody, err := a.readFile(path)
	if errors.Is(err, fs.ErrNotExist) && !explicit {
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
		if errors.As(err, &parse) { // the text of the error may contain a password
			return nil, usage("%s: line %d is not TOML", path, parse.Position.Line)
		}
		return nil, usage("%s is not TOML", path)
	}
	values, err := flagValues(c.Root(), path, raw)
	if err == nil && everybody && len(values["store"]) == 1 && open.HasSecret(values["store"][0]) {
		err = usage("%s contains a password and everybody may read it: chmod 600 it", path)
	}
	return values, err
}

// flagValues converts a configuration to values of flags. A key that is no flag of any command is
// an error.
func flagValues(root *cobra.Command, path string, raw map[string]any) (map[string][]string, error) {
	known := map[string]bool{}
	for _, c := range append(commands(root), root) {
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
			return nil, usage("%s: %s is not a string, a number, a boolean or a list", path, key)
		}
	}
	return values, nil
}

// readFile reads a small file, and reports whether everybody may read it. It refuses a file that
// everybody may write to, because others could then choose the store. It records a file that its
// group may write to, for doctor: the user may be the only member of the group.
func (a *app) readFile(path string) (text []byte, everybody bool, err error) {
	f, err := os.Open(path) //nolint:gosec // the user names the file
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = f.Close() }() // the file was only read
	info, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	if info.Mode().IsRegular() && info.Mode().Perm()&0o002 != 0 && os.PathSeparator == '/' {
		return nil, false, fmt.Errorf("everybody may write to %s: chmod o-w it", path)
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

// storeURL returns the URL of the store. If the flag or a variable names a file, the URL is read
// from that file.
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
		return "", usage("%s must contain one line, the URL of the store", path)
	case everybody && open.HasSecret(url):
		return "", usage("%s contains a password and everybody may read it: chmod 600 it", path)
	}
	return url, nil
}
