package sqlite

import (
	"errors"
	"strconv"
	"time"
)

// errBoot means that the claims in the file are of another boot than ours.
var errBoot = errors.New("other processes use it with another boot identifier, and opening it would free their claims: " +
	"a container with a boot_id of its own (systemd-nspawn, LXC) needs a file of its own, or a store on a server")

// check returns errBoot unless the claims in the file are of this boot.
func (b *base) check(s *Store) error {
	boot, err := b.meta("boot")
	if err != nil {
		return err // a failed read must not count as another boot
	}
	text, err := b.meta("since")
	if err != nil {
		return err
	}
	if text == "" || boot != s.host.boot {
		return errBoot
	}
	since, err := strconv.ParseInt(text, 10, 64)
	b.since = time.Duration(since)
	return err
}

// stamp records in the file that its claims are of this boot.
func (b *base) stamp(s *Store) error {
	return b.exec("insert or replace into meta values ('boot', ?), ('since', ?)",
		s.host.boot, strconv.FormatInt(int64(s.now()), 10))
}

// reboot frees all claims, because no holder survives a reboot. In a file for remote holders, it
// carries them over. If another process has the file open, that process is alive: the boot
// identifiers differ for another reason, and reboot returns errBoot.
//
// A connection to a file with a write-ahead log has a shared lock from its first read until it is
// closed. So only a connection that is alone can turn the log off. If the log is still off in the
// transaction that follows, no other process has opened the file in between, and none can until the
// transaction ends.
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
		if err := b.mode(s); err != nil {
			return err
		}
		end := func(time.Duration) error {
			return b.exec("update key set ends = 0, state = null where key <> x''; delete from entry")
		}
		if b.remote {
			end = b.carryOver
		}
		if err := end(s.now()); err != nil {
			return err
		}
		return b.stamp(s)
	}
	if err := free(); err != nil {
		return errors.Join(err, b.exec("rollback"))
	}
	return b.exec("commit")
}
