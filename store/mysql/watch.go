package mysql

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/backoff"
	"github.com/distlock/distlock/internal/sqlrow"
)

const (
	// minPoll and maxPoll bound the time between two polls. It grows with the time since the last
	// news: locks that change hands often do so quickly, and a long wait costs little.
	minPoll = 5 * time.Millisecond
	maxPoll = 20 * time.Millisecond

	// pollGrowth is the part of the time without news that passes until the next poll.
	pollGrowth = 20

	// pollLimit bounds one poll.
	pollLimit = 2 * time.Second

	// pollStep is the maximum number of keys in one query.
	pollStep = 200

	// fewOwners is the maximum number of owners of a key that a query names. If more watch the key,
	// the query reads all pushed claims: its cost does not grow with the number of watches.
	fewOwners = 8
)

// A watch is one call of Watch.
type watch struct {
	key   string
	owner string // the digest; "": an observer without a claim
	wake  chan driver.Wake

	// Guarded by poller.mu, after Watch has returned.
	seen   *state // until the first poll: as of the call of Watch; nil: not known
	polled bool   // its key was polled since
	pushed int64  // the fence of the pushed grant that was reported
}

// A watched is the watches of one key. It compares each poll with the one before once for all of
// them, so a poll costs the same with any number of watches.
type watched struct {
	owners map[string]map[*watch]struct{}
	fresh  []*watch // were in no poll yet
	seen   state    // as of the last poll
	missed bool     // it failed: news may have been missed
}

// A state is the state of a key in a poll.
type state struct {
	news, records, entries, others int64
	held, kept                     bool
	pushed                         map[string]int64 // the fences of the grants that were pushed to waiters, by owner
}

// A poller looks up all watches of the process.
type poller struct {
	s    *Store
	ctx  context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup
	kick chan struct{}

	mu      sync.Mutex
	closed  bool
	running bool
	watches map[string]*watched // by key
	news    time.Time           // time of the last news, or of the last new watch
}

func (p *poller) open(s *Store) {
	p.s, p.kick = s, make(chan struct{}, 1)
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.watches = map[string]*watched{}
}

func (p *poller) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.stop()
	p.wg.Wait()
}

// Watch returns a channel that is ready when id may be granted. One query looks up all watches of a
// process. A watch with an owner needs no query of its own at the beginning: a grant that was
// pushed is visible for as long as it lives.
func (s *Store) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	if !validKey(id.Key) || ctx.Err() != nil {
		return nil
	}
	w := &watch{key: id.Key, wake: make(chan driver.Wake, 1)}
	failed := false
	if id.Owner != "" {
		w.owner = string(digest(id.Owner))
	} else if states, err := s.poller.look(ctx, []query{{key: w.key, owners: []string{w.owner}}}); err == nil {
		w.seen = states[w.key]
	} else {
		failed = true
	}
	p := &s.poller
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.add(w)
	p.watches[w.key].missed = p.watches[w.key].missed || failed
	p.news = time.Now()
	context.AfterFunc(ctx, func() { p.remove(w) })
	if !p.running {
		p.running = true
		p.wg.Go(p.run)
	}
	return w.wake
}

func (p *poller) add(w *watch) {
	k := p.watches[w.key]
	if k == nil {
		k = &watched{owners: map[string]map[*watch]struct{}{}}
		p.watches[w.key] = k
	}
	if k.owners[w.owner] == nil {
		k.owners[w.owner] = map[*watch]struct{}{}
	}
	k.owners[w.owner][w] = struct{}{}
	k.fresh = append(k.fresh, w)
}

func (p *poller) remove(w *watch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.watches[w.key]
	if delete(k.owners[w.owner], w); len(k.owners[w.owner]) == 0 {
		delete(k.owners, w.owner)
	}
	if len(k.owners) == 0 {
		delete(p.watches, w.key)
	}
}

// soon polls at once if this process watches a key.
func (p *poller) soon(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watches[key] != nil {
		select {
		case p.kick <- struct{}{}:
		default:
		}
	}
}

// run polls until nobody watches.
func (p *poller) run() {
	for failed := 0; ; {
		pause := p.pause()
		if failed > 0 {
			pause = backoff.Pause(failed, maxPoll, time.Second)
		}
		select {
		case <-p.ctx.Done():
			return
		case <-time.After(pause):
		case <-p.kick:
		}
		p.mu.Lock()
		if len(p.watches) == 0 {
			p.running = false
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		if p.poll() {
			failed = 0
		} else {
			failed++
		}
	}
}

// pause returns the time until the next poll.
func (p *poller) pause() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return min(max(time.Since(p.news)/pollGrowth, minPoll), maxPoll)
}

// poll looks up all keys and wakes the watches with news. It reports whether the server answered.
func (p *poller) poll() (ok bool) {
	ok = true
	for some := range slices.Chunk(p.queries(), pollStep) {
		ctx, cancel := context.WithTimeout(p.ctx, pollLimit)
		states, err := p.look(ctx, some)
		cancel()
		ok = ok && err == nil
		p.mu.Lock()
		for _, q := range some {
			if p.apply(q, states[q.key], err) {
				p.news = time.Now()
			}
		}
		p.mu.Unlock()
	}
	return ok
}

// A query is what a poll looks up about one key.
type query struct {
	key    string
	owners []string // whose grants are looked up; nil: of all owners
	fresh  []*watch // the watches that are in their first poll
}

// queries returns what to look up.
func (p *poller) queries() []query {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]query, 0, len(p.watches))
	for key, k := range p.watches {
		q := query{key: key, fresh: k.fresh}
		if len(k.owners) <= fewOwners {
			q.owners = slices.Collect(maps.Keys(k.owners))
		}
		k.fresh = nil
		all = append(all, q)
	}
	return all
}

// apply wakes the watches of a key that have news in its state, or notes that the poll failed. It
// reports whether there were any. The mutex is held.
func (p *poller) apply(q query, is *state, err error) (news bool) {
	k := p.watches[q.key]
	if k == nil {
		return false
	}
	defer func() {
		for _, w := range q.fresh {
			w.polled = true
		}
	}()
	if err != nil {
		k.missed = true
		return false
	}
	for owner, fence := range is.pushed {
		for w := range k.owners[owner] {
			if w.pushed != fence || k.missed {
				w.pushed, news = fence, true
				w.notify(driver.Wake{Granted: true, Fence: uint64(fence), Behind: int(is.entries)})
			}
		}
	}
	wake := func(w *watch) {
		if is.pushed[w.owner] == 0 {
			w.notify(driver.Wake{})
			news = true
		}
	}
	for _, w := range q.fresh {
		if k.missed || w.newTo(is) {
			wake(w)
		}
	}
	concerned := map[string]map[*watch]struct{}{}
	if k.missed || is.concerns(&k.seen, false) {
		concerned = k.owners
	} else if is.concerns(&k.seen, true) {
		concerned[""] = k.owners[""]
	}
	for _, watches := range concerned {
		for w := range watches {
			if w.polled {
				wake(w)
			}
		}
	}
	k.seen, k.missed = *is, false
	return news
}

// newTo reports whether a watch in its first poll is woken: what happened since the call of Watch
// is visible in the state, or may be.
func (w *watch) newTo(is *state) bool {
	if w.seen != nil {
		return is.concerns(w.seen, true)
	}
	return is.kept || is.entries == 0 && (!is.held || is.others > 0)
}

// concerns reports whether a change of state concerns all watches of the key, or those without an
// owner too.
func (is *state) concerns(was *state, observer bool) bool {
	return is.records != was.records || is.news != was.news && (observer || is.entries == 0)
}

// notify makes the channel ready. A grant replaces an unread value. The mutex of the poller is
// held.
func (w *watch) notify(wake driver.Wake) {
	if wake.Granted {
		select {
		case <-w.wake:
		default:
		}
	}
	select {
	case w.wake <- wake:
	default: // already ready
	}
}

// condition selects the row of a key, and the rows with claims that may have been pushed to one of
// the owners.
func (q *query) condition() string {
	key := "lock_key = " + hexOf(q.key)
	if q.owners == nil {
		return key + " AND (slot = '' OR pushed = 1)"
	}
	slots := []string{"''"}
	for _, owner := range q.owners {
		if owner != "" {
			slots = append(slots, hexOf(owner))
		}
	}
	return key + " AND slot IN " + list(slots...)
}

// look returns the state of each key. A key without a row has the zero state.
func (p *poller) look(ctx context.Context, all []query) (map[string]*state, error) {
	conditions, states := make([]string, len(all)), map[string]*state{}
	for i, q := range all {
		conditions[i] = q.condition()
		states[q.key] = &state{}
	}
	rows, err := p.s.query(ctx, p.s.claims, "SELECT lock_key, slot, owner, news, records, entries, others,"+
		" live, kept AND live, IF(pushed AND live, fence, 0) FROM ("+
		"SELECT *, broken IS NULL AND ends > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS live"+
		" FROM distlock_claim WHERE "+strings.Join(conditions, " OR ")+") c")
	if err != nil {
		return nil, err
	}
	for _, cells := range rows {
		r := reader{sqlrow.Reader{Cells: cells}}
		key, slot, owner := r.Text(), r.Text(), r.Text()
		st := state{news: r.Number(), records: r.Number(), entries: r.Number(), others: r.Number(),
			held: r.Number() != 0, kept: r.Number() != 0}
		fence := r.Number()
		is := states[key]
		if r.Err != nil || is == nil {
			return nil, cmp.Or(r.Err, sqlrow.ErrAnswer)
		}
		if slot == "" {
			st.pushed = is.pushed
			*is = st
		}
		if fence > 0 {
			if is.pushed == nil {
				is.pushed = map[string]int64{}
			}
			is.pushed[owner] = fence
		}
	}
	return states, nil
}
