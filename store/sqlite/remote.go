package sqlite

import (
	sqldriver "database/sql/driver"
	"slices"
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
	keys, err := b.keys()
	if err != nil {
		return err
	}
	var last time.Duration // the last call of the earlier boot that is known
	for _, k := range keys {
		for _, c := range slices.Concat(k.claims, k.queue) {
			last = max(last, c.ends-c.ttl)
		}
	}
	for _, k := range keys {
		k.expire(last)
		k.carryOver(now)
		k.expire(now)
		state, ends := k.encode()
		if err := b.exec("update key set ends = ?, state = ? where key = ?", int64(ends), state, []byte(k.name)); err != nil {
			return err
		}
	}
	return nil
}

// keys returns all keys that have entries, except those that cannot be read.
func (b *base) keys() (all []*key, err error) {
	made, err := b.conn.Prepare("select key, state from key where key <> x'' and state is not null")
	if err != nil {
		return nil, err
	}
	defer made.Close()
	var dest [2]sqldriver.Value
	err = (&stmt{made}).rows(dest[:], func() bool {
		name, _ := dest[0].([]byte)
		state, _ := dest[1].([]byte)
		if k := (&key{name: string(name)}); k.decode(state) == nil {
			all = append(all, k)
		}
		return true
	})
	return all, err
}

// carryOver gives all entries their whole TTL again, and records what is left of their life by the
// time of day. The sockets in the entries belong to processes of the earlier boot.
func (k *key) carryOver(now time.Duration) {
	for _, c := range slices.Concat(k.claims, k.queue) {
		held, life := c.ends-c.ttl-c.since, c.ttl
		if c.kept() {
			life = min(max(time.Until(time.Unix(0, c.until)), 0), life)
		}
		c.since, c.socket = now-max(held, 0), ""
		c.live(now, life)
	}
	k.broken, k.observers = nil, nil
}
