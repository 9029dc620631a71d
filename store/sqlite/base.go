package sqlite

import (
	"context"
	"crypto/rand"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"modernc.org/sqlite"
)

const (
	// openLimit is how long Open waits for other processes that use the file.
	openLimit = 5 * time.Second

	// openPause is the longest pause between two attempts to open the file. After a reboot many
	// processes may open it at once, and one of them must have the file to itself for a moment.
	openPause = 20 * time.Millisecond

	// application is the application_id of the file: "dlck".
	application = 0x646c636b

	schema = `
create table key (
	key   blob primary key, -- the empty key belongs to the file: its fence is above those of all swept keys
	fence integer not null, -- the last fence of the key
	ends  integer not null, -- the end of the last entry: ns since the boot
	state blob              -- the oldest claim of the key, and the number of all others
) without rowid;
create table entry (
	key     blob not null,
	waiting integer not null, -- 1: a queue entry, 0: a claim
	number  integer not null, -- the order of the queue, and that of the claims
	owner   blob not null,
	ends    integer not null, -- ns since the boot
	state   blob not null,
	primary key (key, waiting, number)
) without rowid;
create unique index entry_owner on entry (key, owner);
create index entry_ends on entry (key, waiting, ends);
create trigger swept after delete on key begin delete from entry where key = old.key; end;
create table meta (name text primary key, value text not null) without rowid;
insert into key values (x'', 0, 0, null);`
)

// A base is an open file. It has one connection, because SQLite allows one writer at a time anyway.
// It does not use the pool of database/sql, because the gate already does that work.
type base struct {
	conn sqldriver.Conn
	file os.FileInfo

	begin, commit, rollback     *stmt
	load, save, empty           *stmt
	list, bound, sweep, swept   *stmt
	find, oldest, ahead, behind *stmt // of the table entry
	firstEnd, lastEnd, entries  *stmt
	put, remove, expire         *stmt
	identity                    string
	since                       time.Duration // when this boot first used the file
	remote                      bool          // see Options.Remote
	version, journal, synchrony string
}

// connect opens the file, and creates it if it does not exist.
func (s *Store) connect(ctx context.Context) (*base, error) {
	fail := func(err error) (*base, error) { return nil, fmt.Errorf("sqlite: %s: %w", s.path, err) }
	if err := s.prepare(); err != nil {
		return fail(err)
	}
	file, err := os.Lstat(s.path)
	if err != nil {
		return fail(err)
	}
	// A URI, because a path may contain a question mark.
	name := (&url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(s.path)}).String()
	for try := 0; ; try++ {
		b, err := s.attempt(name, file)
		if err == nil {
			return b, nil
		}
		if otherBoot := errors.Is(err, errBoot); ctx.Err() != nil || !busy(err) && !otherBoot {
			switch {
			case busy(err):
				err = definite(s.by(errBusy))
			case code(err) != 0 || otherBoot:
				err = definite(err) // errors of SQLite may pass; a file that we refuse stays refused
			}
			return fail(err)
		}
		pause(ctx, try, openPause)
	}
}

// attempt opens the file once. If that fails, attempt closes the file again: while the file is
// open, other processes cannot free its claims after a reboot.
func (s *Store) attempt(name string, file os.FileInfo) (*base, error) {
	conn, err := new(sqlite.Driver).Open(name)
	if err != nil {
		return nil, definite(err)
	}
	b := &base{conn: conn, file: file}
	err = b.setup(s)
	if errors.Is(err, errBoot) {
		if err = b.reboot(s); err == nil {
			err = b.setup(s)
		}
	}
	if err != nil {
		_ = b.close()
		return nil, err
	}
	return b, nil
}

// setup prepares the connection. It may be called again after errBoot.
func (b *base) setup(s *Store) error {
	level := "normal"
	if s.opt.Full {
		level = "full"
	}
	// No busy_timeout: calls wait in begin, which obeys ctx and lets renewals go first.
	for _, q := range []string{"pragma busy_timeout = 0", "pragma synchronous = " + level, "pragma journal_mode = wal"} {
		if err := b.exec(q); err != nil {
			return err
		}
	}
	if err := b.exec("begin immediate"); err != nil {
		return err
	}
	made, err := b.enter(s)
	if err != nil {
		return errors.Join(err, b.exec("rollback"))
	}
	if err := b.exec("commit"); err != nil {
		_ = b.exec("rollback") // the transaction may have ended already
		return err
	}
	if b.remote {
		if err := b.exec("pragma synchronous = full"); err != nil {
			return err
		}
	}
	b.synchrony = b.text("pragma synchronous")
	if made {
		_ = b.checkpoint() // so that the file has its pages when the disk is full
	}
	return b.prepare()
}

// checkpoint moves the write-ahead log into the file, if no other connection uses the file now.
func (b *base) checkpoint() error { return b.exec("pragma wal_checkpoint(truncate)") }

// enter checks the application, the layout and the boot of the file. It reports whether it has
// created the tables.
func (b *base) enter(s *Store) (made bool, err error) {
	layout, app := b.number("pragma user_version"), b.number("pragma application_id")
	tables := b.number("select count(*) from sqlite_schema")
	switch {
	case tables == 0 && layout == 0:
		if err := b.create(); err != nil {
			return false, err
		}
		made = true
	case app != application:
		return false, errors.New("the file is a database of another application")
	case layout > stateVersion:
		return false, fmt.Errorf("the file has layout %d, and this program supports %d: use a newer version", layout, stateVersion)
	case layout < stateVersion:
		return false, fmt.Errorf("the file has layout %d, from before the first release: remove it while no program uses it", layout)
	}
	b.version = b.text("select sqlite_version()")
	b.journal = b.text("pragma journal_mode")
	if b.identity, err = b.meta("identity"); err != nil {
		return false, err
	}
	if err := b.mode(s); err != nil {
		return false, err
	}
	if made {
		b.since = s.now()
		return true, b.stamp(s)
	}
	return false, b.check(s)
}

func (b *base) create() error {
	for _, q := range []string{
		schema,
		fmt.Sprintf("pragma application_id = %d", application),
		fmt.Sprintf("pragma user_version = %d", stateVersion),
	} {
		if err := b.exec(q); err != nil {
			return err
		}
	}
	return b.exec("insert into meta values ('identity', ?), ('made', ?)",
		rand.Text(), time.Now().UTC().Format(time.RFC3339))
}

func (b *base) prepare() error {
	for text, at := range b.statements() {
		if *at != nil {
			continue // setup was called before
		}
		made, err := b.conn.Prepare(text)
		if err != nil {
			return err
		}
		*at = &stmt{made}
	}
	return nil
}

// statements returns all statements of calls. A limit is a part of the text if the statement is run
// often: SQLite prepares a statement again when a parameter of a limit changes.
func (b *base) statements() map[string]**stmt {
	return map[string]**stmt{
		"begin immediate": &b.begin, "commit": &b.commit, "rollback": &b.rollback,
		"select fence, state from key where key = ?":                                          &b.load,
		"insert or replace into key values (?, ?, ?, ?)":                                      &b.save,
		"update key set ends = 0, state = null where key = ? and state = ?":                   &b.empty,
		"select key, fence, state from key where key >= ? and key > x'' and ends > ? limit ?": &b.list,
		"select key from key where key > ? order by key limit 1 offset ?":                     &b.bound,
		"delete from key where key > ? and (? or key <= ?) and ends <= ? and fence < ?":       &b.sweep,
		"update key set fence = max(fence, ?) where key = x''":                                &b.swept,

		"select number, state from entry where key = ? and owner = ?":                           &b.find,
		"select number, state from entry where key = ? and waiting = ? order by number limit 1": &b.oldest,
		"select number, state from entry where key = ? and waiting = ? order by number":         &b.entries,
		`select count(*), min(ends), min(number) from (
			select ends, number from entry where key = ? and waiting = 1 and number < ? order by number limit 17)`: &b.ahead,
		"select count(*) from (select 1 from entry where key = ? and waiting = 1 and number > ? limit 17)": &b.behind,
		"select min(ends) from entry where key = ? and waiting = 0":                                        &b.firstEnd,
		`select max(ifnull((select max(ends) from entry where key = ?1 and waiting = 0), 0),
			ifnull((select max(ends) from entry where key = ?1 and waiting = 1), 0))`: &b.lastEnd,
		`insert into entry values (?, ?, ?, ?, ?, ?)
			on conflict (key, waiting, number) do update set ends = excluded.ends, state = excluded.state`: &b.put,
		"delete from entry where key = ? and waiting = ? and number = ?":                                              &b.remove,
		"delete from entry indexed by entry_ends where key = ? and waiting = ? and ends <= ? returning number, state": &b.expire,
	}
}

// exec runs a statement once.
func (b *base) exec(q string, args ...sqldriver.Value) error {
	made, err := b.conn.Prepare(q)
	if err != nil {
		return err
	}
	_, err = (&stmt{made}).exec(args...)
	return errors.Join(err, made.Close())
}

// number returns the integer that a query returns, or -1 if it returns none.
func (b *base) number(q string) int64 {
	if n, ok := b.value(q).(int64); ok {
		return n
	}
	return -1
}

// text returns the result of a query as text, or "" if there is none.
func (b *base) text(q string) string {
	v := b.value(q)
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// meta returns a value of the table meta, or "" if there is none.
func (b *base) meta(name string) (string, error) {
	made, err := b.conn.Prepare("select value from meta where name = ?")
	if err != nil {
		return "", err
	}
	defer made.Close()
	dest := make([]sqldriver.Value, 1)
	found, err := (&stmt{made}).row(dest, name)
	if err != nil || !found {
		return "", err
	}
	return fmt.Sprint(dest[0]), nil
}

// value returns the first column of the first row of a query, or nil.
func (b *base) value(q string) sqldriver.Value {
	made, err := b.conn.Prepare(q)
	if err != nil {
		return nil
	}
	defer made.Close()
	dest := make([]sqldriver.Value, 1)
	if found, err := (&stmt{made}).row(dest); err != nil || !found {
		return nil
	}
	return dest[0]
}

func (b *base) close() error {
	var err error
	for _, at := range b.statements() {
		if *at != nil {
			err = errors.Join(err, (*at).made.Close())
		}
	}
	return errors.Join(err, b.conn.Close())
}

// drop closes the file. The next call opens it again.
func (s *Store) drop() error {
	if s.base == nil {
		return nil
	}
	b := s.base
	s.base = nil
	return b.close()
}
