package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/distlock/distlock/open"
)

var update = flag.Bool("update", false, "rewrite docs/man")

// manSections are the sections of the man pages that are not in the help, by command.
var manSections = map[string]string{
	"distlock-run": `.SH EXIT STATUS
.PP
The status of COMMAND if it ended by itself and the lock was held throughout, and 128+n if signal n ended it. Otherwise:
.TP
.B 64
wrong usage or configuration; a nested run of a lock that an enclosing run holds
.TP
.B 69
the store could not be reached before the grant
.TP
.B 75
the lock was not acquired: \fB--try\fP was given, or the time of \fB--wait\fP has passed. \fB-E\fP changes it
.TP
.B 79
the lock was lost while the command ran
.TP
.B 124
the time of \fB--max-run\fP has passed
.TP
.B 125
another error of distlock itself
.TP
.B 126, 127
the command cannot be run, or was not found
.TP
.B 129, 130, 131, 143
HUP, INT, QUIT or TERM while waiting
.SH ENVIRONMENT
.PP
run sets \fBDISTLOCK_LOCK_NAME\fP, \fBDISTLOCK_LOCK_FENCE\fP (the fencing token), \fBDISTLOCK_LOCK_HOLDER\fP, \fBDISTLOCK_LOCK_MODE\fP
and \fBDISTLOCK_LOCK_PROOF\fP (for the header Distlock-Fence) for COMMAND, and with \fB--pass-handle\fP also the secret \fBDISTLOCK_LOCK_HANDLE\fP.
`,
	"distlock": `.SH STORES
.PP
.nf
sqlite:                                      a file in the state directory (the default)
sqlite:locks.db, sqlite:///var/lib/locks.db  a file by its path
memory:                                      the memory of this process
redis://user:password@host:6379/0            also rediss://, valkey://, valkeys://
redis+unix:///run/redis.sock?db=0            a server by its socket
redis+sentinel://h1,h2/0?master_name=main    also rediss+sentinel://
redis+cluster://h1:7000,h2:7001              also rediss+cluster://
redlock://h1,h2,h3/0                         a majority of servers; also redlocks://
redlock:?node=URL&node=URL&node=URL          the same, each with a URL of its own
postgres://user:password@host/database       tables of PostgreSQL; see distlock-migrate(1)
postgres://host/database?lock_mode=advisory  its advisory locks
mysql://user:password@host/database          tables of MariaDB; also mariadb://
etcd://h1:2379,h2,h3/prefix                  an etcd cluster; also etcds://
http://h1:7520,h2:7520                       lock servers; also https://; see distlock-serve(1)
unix:/run/distlock.sock                      a lock server by its socket
.fi
.SH ENVIRONMENT
.PP
Every flag has a variable: \fB--min-hold\fP is \fBDISTLOCK_MIN_HOLD\fP. A flag wins over its variable, and the variable over the configuration file.
.TP
.B DISTLOCK_STORE, DISTLOCK_STORE_FILE
the URL of the store, or a file with the URL in it
.TP
.B DISTLOCK_TOKEN, DISTLOCK_TOKEN_FILE
the token for a lock server, or a file with the token in it; see distlock-token(1)
.TP
.B DISTLOCK_CONFIG
the configuration file
.TP
.B NO_COLOR
no colours
.SH FILES
.TP
.I $XDG_CONFIG_HOME/distlock/config.toml
the configuration: the long names of flags and their values, in TOML
.TP
.I $XDG_STATE_HOME/distlock/locks.db
the default store
`,
}

// pages returns the man pages by their file names.
func pages(t *testing.T) map[string]string {
	t.Helper()
	root := (&app{redact: open.Redact}).root()
	for _, c := range append(commands(root), root) {
		c.DisableAutoGenTag = true // the tag contains the date
		c.InitDefaultHelpFlag()
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if name, _ := pflag.UnquoteUsage(f); f.DefValue == "0" || f.DefValue == "0s" {
				f.DefValue = name // a flag that is left out does not mean the same as 0
			}
		})
	}
	dir := t.TempDir()
	day := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	header := &doc.GenManHeader{Section: "1", Source: "distlock", Manual: "distlock", Date: &day}
	if err := doc.GenManTree(root, header, dir); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	files, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		page := strings.Replace(string(text), `"Jan 2000"`, `""`, 1) // a page has no date
		page = strings.ReplaceAll(page, `[=false]`, "")              // the default of a boolean flag
		if more := manSections[strings.TrimSuffix(name, ".1")]; more != "" {
			before, after, _ := strings.Cut(page, ".SH SEE ALSO")
			page = before + more + ".SH SEE ALSO" + after
		}
		all[name] = page
	}
	return all
}

// The pages in docs/man are up to date.
func TestMan(t *testing.T) {
	dir := filepath.Join("..", "..", "docs", "man")
	want := pages(t)
	files, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if _, ok := want[filepath.Base(file)]; !ok && *update {
			err = os.Remove(file)
		} else if !ok {
			t.Errorf("%s belongs to no command", file)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, page := range want {
		path := filepath.Join(dir, name)
		if *update {
			if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != page {
			t.Errorf("%s is not current, %v: go test ./cmd/distlock -run TestMan -args -update", path, err)
		}
	}
	for _, c := range (&app{redact: open.Redact}).root().Commands() {
		if _, ok := want["distlock-"+c.Name()+".1"]; ok == c.Hidden {
			t.Errorf("%s: hidden %v, page %v", c.Name(), c.Hidden, ok)
		}
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, scheme := range regexp.MustCompile("`([a-z+]+)://").FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(want["distlock.1"], scheme[1]+"://") {
			t.Errorf("the man page of distlock has no %s://, but docs/cli.md has it", scheme[1])
		}
	}
}
