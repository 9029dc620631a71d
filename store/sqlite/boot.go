package sqlite

import (
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// errBoot says that the claims in the file are of another boot than ours.
var errBoot = errors.New("others use it under another name of the boot, which would free their claims: a container with a boot_id of its own " +
	"(systemd-nspawn, LXC) needs a file of its own, or a store on a server")

// check makes sure that the claims in the file are of this boot.
func (b *base) check(s *Store) error {
	var dest [2]sqldriver.Value
	made, err := b.conn.Prepare("select a.value, b.value from meta a, meta b where a.name = 'boot' and b.name = 'since'")
	if err != nil {
		return err
	}
	defer made.Close()
	there, err := (&stmt{made}).row(dest[:])
	if err != nil {
		return err // it must not pass for another boot
	}
	if !there || dest[0] != s.host.boot {
		return errBoot
	}
	since, err := strconv.ParseInt(fmt.Sprint(dest[1]), 10, 64)
	b.since = time.Duration(since)
	return err
}

// stamp writes down that the claims in the file are of this boot.
func (b *base) stamp(s *Store) error {
	return b.exec("insert or replace into meta values ('boot', ?), ('since', ?)", s.host.boot, strconv.FormatInt(int64(s.now()), 10))
}

// reboot frees everything, if nobody else has the file open: no holder has survived a reboot, but whoever has the file open has. Then the names
// of the boot differ for another reason, and the answer is errBoot.
//
// A connection has a shared lock on a file with a write-ahead log from its first look until it is closed, so only one that is alone can
// give up the log. In the transaction that follows the log is still given up unless somebody has opened the file in
// between, and until its end nobody can.
func (b *base) reboot(s *Store) (err error) {
	defer func() {
		if busy(err) {
			err = errBoot
		}
	}()
	for _, q := range []string{"pragma journal_mode = delete", "begin exclusive"} {
		if err := b.exec(q); err != nil {
			return err
		}
	}
	free := func() error {
		if b.text("pragma journal_mode") != "delete" {
			return errBoot
		}
		if err := b.check(s); !errors.Is(err, errBoot) {
			return err
		}
		if err := b.exec("update key set ends = 0, state = null where key <> x''"); err != nil {
			return err
		}
		return b.stamp(s)
	}
	if err := free(); err != nil {
		return errors.Join(err, b.exec("rollback"))
	}
	return b.exec("commit")
}
