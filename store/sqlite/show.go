package sqlite

import (
	"bytes"
	"cmp"
	"context"
	sqldriver "database/sql/driver"
	"fmt"
	"iter"
	"time"

	"github.com/distlock/distlock/driver"
)

// listStep is how many keys List reads in one transaction, in which this process cannot write.
const listStep = 128

// Show returns the claims on a key and its queue.
func (s *Store) Show(ctx context.Context, name string) (out []driver.Claim, err error) {
	err = s.read(ctx, func(t *tx) error {
		k, err := t.peek(name)
		if err != nil {
			return err
		}
		out, err = k.describeAll()
		return err
	})
	return out, err
}

// List yields the claims and queues of all keys with a prefix, in order of the keys.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error] {
	return func(yield func(driver.Claim, error) bool) {
		for from := []byte(prefix); from != nil; {
			var page []driver.Claim
			err := s.read(ctx, func(t *tx) (err error) {
				page, from, err = t.page(from, []byte(prefix))
				return err
			})
			if err != nil {
				yield(driver.Claim{}, err)
				return
			}
			for _, c := range page {
				if !yield(c, nil) {
					return
				}
			}
		}
	}
}

// page reads some keys. It returns where the next page begins; nil: there is none.
func (t *tx) page(from, prefix []byte) (out []driver.Claim, next []byte, err error) {
	var dest [3]sqldriver.Value
	var keys []*key
	n := 0
	var wrong error
	err = t.base.list.rows(dest[:], func() bool {
		name, _ := dest[0].([]byte)
		if !bytes.HasPrefix(name, prefix) {
			n = 0 // the last key with the prefix was read
			return false
		}
		var k *key
		if k, wrong = t.decode(string(name), dest[1], dest[2]); wrong != nil {
			return false
		}
		keys = append(keys, k)
		next = append(bytes.Clone(name), 0) // the smallest key after name
		n++
		return true
	}, from, int64(t.now), int64(listStep))
	if n < listStep {
		next = nil
	}
	if err := cmp.Or(err, wrong); err != nil {
		return nil, nil, err
	}
	for _, k := range keys {
		claims, err := k.describeAll()
		if err != nil {
			return nil, nil, err
		}
		out = append(out, claims...)
	}
	return out, next, nil
}

// read runs f in a transaction, and changes nothing.
func (s *Store) read(ctx context.Context, f func(*tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	until := time.Now().Add(busyLimit)
	if err := s.gate.enter(ctx, until, false); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	defer s.gate.leave()
	t, err := s.begin(ctx, call{}, until)
	if err != nil {
		return err
	}
	return s.end(t, f(t))
}

// age returns how long this boot has used the file. It is never 0, which would mean an unknown age.
func (s *Store) age(t *tx) time.Duration { return max(t.now-t.base.since, 1) }
