package sqlite

import (
	sqldriver "database/sql/driver"
	"errors"
	"time"
)

// mode reads whether the file is for remote holders, and records it in the file if the options say
// so. The file never becomes a file for local holders again.
func (b *base) mode(s *Store) error {
	holders, err := b.meta("holders")
	if err == nil && holders == "" && s.opt.Remote {
		holders, err = "remote", b.exec("insert into meta values ('holders', 'remote')")
	}
	b.remote = holders == "remote"
	return err
}

// carryOver gives the claims and queue entries of an earlier boot a new life from now on: nobody
// knows how much of their lives was left when the host stopped.
func (b *base) carryOver(now time.Duration) error {
	if err := b.prepare(); err != nil {
		return err
	}
	all, err := b.keys(&tx{base: b, now: now})
	if err != nil {
		return err
	}
	var last time.Duration // the last call of the earlier boot that is known
	for _, claims := range all {
		for _, c := range claims {
			last = max(last, c.ends-c.ttl)
		}
	}
	for k, claims := range all {
		if err := k.carryOver(claims, last); err != nil {
			return err
		}
	}
	return nil
}

// keys returns all keys that have entries, with their claims and queues, except those that cannot
// be read.
func (b *base) keys(t *tx) (map[*key][]*claim, error) {
	made, err := b.conn.Prepare("select key from key where key <> x'' and state is not null")
	if err != nil {
		return nil, err
	}
	defer made.Close()
	var names []string
	var dest [1]sqldriver.Value
	err = (&stmt{made}).rows(dest[:], func() bool {
		name, _ := dest[0].([]byte)
		names = append(names, string(name))
		return true
	})
	if err != nil {
		return nil, err
	}
	all := map[*key][]*claim{}
	for _, name := range names {
		k, err := t.peek(name)
		var claims []*claim
		if err == nil {
			claims, err = k.all()
		}
		switch {
		case err == nil:
			all[k] = claims
		case !errors.Is(err, errState):
			return nil, err
		}
	}
	return all, nil
}

// carryOver gives all claims and queue entries their whole TTL again, and records what is left of
// their life by the time of day, except those that had ended before the last call of the earlier
// boot. The sockets in the entries belong to processes of that boot.
func (k *key) carryOver(claims []*claim, last time.Duration) error {
	if err := k.t.base.exec("delete from entry where key = ?", []byte(k.name)); err != nil {
		return err
	}
	k.first, k.rows, k.broken, k.observers = nil, rows{}, nil, nil
	for _, c := range claims {
		if c.ends <= last {
			continue
		}
		c.carryOver(k.t.now)
		if c.ends <= k.t.now {
			continue
		}
		c.stored = 0
		if err := k.put(c); err != nil {
			return err
		}
	}
	return k.t.save(k)
}

func (c *claim) carryOver(now time.Duration) {
	held, life := c.ends-c.ttl-c.since, c.ttl
	if c.kept() {
		life = min(max(time.Until(time.Unix(0, c.until)), 0), life)
	}
	c.since, c.socket = now-max(held, 0), ""
	c.live(now, life)
}
