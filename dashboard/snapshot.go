package dashboard

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/deadlock"
	"github.com/distlock/distlock/internal/names"
)

const (
	// scanEvery is the shortest time between two scans of one scope, and scanLimit and scanClaims
	// bound a scan. A store has no cursor: a scan of more would be slow for the store, and for
	// pages that show a part of it.
	scanEvery  = 2 * time.Second
	scanLimit  = 2 * time.Second
	scanClaims = 10_000

	// maxScopes is how many scopes have a snapshot at the same time.
	maxScopes = 16
)

// A lockView is a name of one kind that is held, or waited for.
type lockView struct {
	Kind    names.Kind
	Name    string
	Key     string
	Holders []claimView // the oldest first
	Waiters []claimView // in order
}

// A claimView is a claim or a queue entry. It has no value: values are not shown.
type claimView struct {
	Owner         string // the tag
	Holder, Task  string
	Meta          map[string]string
	Weight, Limit int64
	Fence         uint64
	Since         time.Time     // by the clock of this process
	Until         time.Time     // zero: it does not end by itself
	Left          time.Duration // when the snapshot was made
	Most          time.Duration // the longest Left that was seen of this claim
	Seen          time.Time     // when a scan saw it first
	Renewed       time.Time     // when it was renewed last, as far as scans saw; zero: none did
	Kept          bool
}

// A snapshot is what one scan of the store saw.
type snapshot struct {
	Seq     int
	At      time.Time
	Took    time.Duration
	Partial string // why there may be more; "" if there is not
	Err     error  // why the scan failed; the snapshot is the one before then
	Locks   []*lockView
	byKey   map[string]*lockView
	seen    map[claimID]seen
	notices []deadlock.Notice
	cycles  []*deadlock.Cycle
}

// A claimID names a claim or a queue entry.
type claimID struct {
	key, owner string
	fence      uint64
}

// seen is what earlier scans saw of a claim.
type seen struct {
	since, until, seen, renewed time.Time
	most                        time.Duration
}

// A scope is the part of the store that a scan reads: all of it, the names that begin with a
// prefix, or one key.
type scope struct{ prefix, key string }

// A scanner makes the snapshots of all pages. It scans only when a page wants a snapshot and the
// last one is older than scanEvery, and one scan serves all pages.
type scanner struct {
	store driver.Store
	found *deadlocks

	recorder *Recorder // nil: there is none

	mu     sync.Mutex
	scopes map[scope]*scoped
	seq    int
}

type scoped struct {
	mu   sync.Mutex // held during a scan: others wait for its result
	last *snapshot
	used time.Time
}

// snapshot returns the latest snapshot of a scope, not older than scanEvery.
func (s *scanner) snapshot(ctx context.Context, of scope) *snapshot {
	s.mu.Lock()
	at := s.scopes[of]
	if at == nil {
		s.shrinkLocked()
		at = &scoped{last: &snapshot{byKey: map[string]*lockView{}}}
		s.scopes[of] = at
	}
	at.used = time.Now()
	s.mu.Unlock()

	at.mu.Lock()
	defer at.mu.Unlock()
	if !at.last.At.IsZero() && time.Since(at.last.At) < scanEvery {
		return at.last
	}
	// The scan is for all pages: the end of the request that began it does not end it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), scanLimit)
	defer cancel()
	next := s.scan(ctx, of, at.last)
	s.mu.Lock()
	s.seq++
	next.Seq = s.seq
	s.mu.Unlock()
	at.last = next
	return next
}

// shrinkLocked makes the scope that was used longest ago forget its snapshot if there are many.
func (s *scanner) shrinkLocked() {
	if s.scopes == nil {
		s.scopes = map[scope]*scoped{}
	}
	if len(s.scopes) < maxScopes {
		return
	}
	var oldest scope
	var at time.Time
	for of, one := range s.scopes {
		if at.IsZero() || one.used.Before(at) {
			oldest, at = of, one.used
		}
	}
	delete(s.scopes, oldest)
}

// expire makes the next snapshot a new one: a claim was broken.
func (s *scanner) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scopes = nil
}

// scan reads the store. If that fails, it returns the old snapshot with the error.
func (s *scanner) scan(ctx context.Context, of scope, old *snapshot) *snapshot {
	began := time.Now()
	b := &builder{old: old, next: &snapshot{At: began, byKey: map[string]*lockView{}, seen: map[claimID]seen{}}}
	err := s.read(ctx, of, b)
	next := b.next
	switch {
	case err != nil && ctx.Err() != nil:
		next.Partial = "the store was too slow"
	case err != nil:
		failed := *old
		failed.At, failed.Err = began, err
		return &failed
	}
	slices.SortFunc(next.Locks, func(a, b *lockView) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	read := func(_ context.Context, key string) ([]driver.Claim, error) { return b.raw[key], nil }
	next.cycles, _ = deadlock.Find(ctx, read, names.Notice.Key, next.notices)
	if len(next.cycles) > 0 {
		s.found.confirm(s.store, next.notices) //nolint:contextcheck // it goes on when the scan has ended
	}
	next.Took = time.Since(began)
	if s.recorder != nil && of == (scope{}) && next.Partial == "" {
		s.recorder.expired(began, next.holds)
	}
	return next
}

// holds reports whether an owner has a claim, or waits for one.
func (s *snapshot) holds(key, tag string) bool {
	l := s.byKey[key]
	is := func(c claimView) bool { return c.Owner == tag }
	return l != nil && (slices.ContainsFunc(l.Holders, is) || slices.ContainsFunc(l.Waiters, is))
}

// read reads the claims of a scope. Notices belong to every scope.
func (s *scanner) read(ctx context.Context, of scope, b *builder) error {
	if of.key != "" {
		claims, err := driver.Show(ctx, s.store, of.key)
		for _, c := range claims {
			b.add(c)
		}
		if err != nil {
			return err
		}
	}
	prefixes := []string{""}
	switch {
	case of.key != "":
		prefixes = []string{string(names.Notice)}
	case of.prefix != "":
		prefixes = []string{string(names.Notice)}
		for _, k := range names.Shown {
			prefixes = append(prefixes, k.Key(of.prefix))
		}
	}
	for _, p := range prefixes {
		for c, err := range driver.List(ctx, s.store, p) {
			if err != nil {
				return err
			}
			if k, _, _ := names.Split(c.Key); of.prefix != "" && p != string(names.Notice) && !hasKind(p, k) {
				continue // the prefix of a plain lock is also that of keys of other kinds
			}
			if b.add(c); b.claims >= scanClaims {
				b.next.Partial = "there are more than 10,000 claims"
				return nil
			}
		}
	}
	return nil
}

// hasKind reports whether a prefix of keys is one of the kind.
func hasKind(prefix string, k names.Kind) bool {
	of, _, _ := names.Split(prefix)
	return of == k
}

// A builder makes a snapshot of claims.
type builder struct {
	old, next *snapshot
	claims    int
	raw       map[string][]driver.Claim // of the locks of notices, and notices, for the search of deadlocks
}

// add adds a claim. Values are dropped at once: 10,000 of them may be 640 MB.
func (b *builder) add(c driver.Claim) {
	if b.raw == nil {
		b.raw = map[string][]driver.Claim{}
	}
	kind, name, ok := names.Split(c.Key)
	if !ok {
		if n, ok := deadlock.ReadNotice(c, string(names.Notice)); ok {
			b.next.notices = append(b.next.notices, n)
			b.raw[c.Key] = append(b.raw[c.Key], c)
		}
		return
	}
	b.claims++
	c.Value = nil
	b.raw[c.Key] = append(b.raw[c.Key], c)
	l := b.next.byKey[c.Key]
	if l == nil {
		l = &lockView{Kind: kind, Name: name, Key: c.Key}
		b.next.byKey[c.Key] = l
		b.next.Locks = append(b.next.Locks, l)
	}
	v := claimView{
		Owner: c.Owner, Holder: c.Holder, Task: c.Task, Meta: c.Meta, Weight: c.Weight, Limit: c.Limit, Fence: c.Fence,
		Since: b.next.At.Add(-c.Held), Left: c.Left, Most: c.Left, Kept: c.Kept, Seen: b.next.At,
	}
	if c.Left > 0 && !c.Waiting { // a waiter repeats its attempts
		v.Until = b.next.At.Add(c.Left)
	}
	// Each scan computes a slightly different time of the grant. The first one stays, so that pages
	// change only if something has changed.
	id := claimID{c.Key, c.Owner, c.Fence}
	if was, ok := b.old.seen[id]; ok {
		v.Since, v.Most, v.Seen, v.Renewed = was.since, max(v.Most, was.most), was.seen, was.renewed
		switch d := v.Until.Sub(was.until); {
		case -time.Second < d && d < time.Second:
			v.Until = was.until
		case d > 0:
			// A scan sees a renewal later. The time that is left shows how much later.
			if v.Renewed = v.Until.Add(-v.Most); v.Renewed.After(b.next.At) {
				v.Renewed = b.next.At
			}
		}
	}
	b.next.seen[id] = seen{v.Since, v.Until, v.Seen, v.Renewed, v.Most}
	if c.Waiting {
		l.Waiters = append(l.Waiters, v)
	} else {
		l.Holders = append(l.Holders, v)
	}
}
