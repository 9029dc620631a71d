package mysql

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/backoff"
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
	owner []byte // the digest; nil: an observer without a claim
	wake  chan driver.Wake

	// Only the poller uses the fields below, after Watch has returned.
	seen   *state // as of the last poll; nil: none yet
	pushed int64  // the fence of the pushed grant that was reported
	missed bool   // a poll failed: news may have been missed
}

// A state is the state of a key in a poll.
type state struct {
	news, records, entries, others int64
	held, kept                     bool
	pushed                         int64 // the fence of a grant that was pushed to the owner of the watch
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
	watches map[string]map[*watch]struct{} // by key
	news    time.Time                      // time of the last news, or of the last new watch
}

func (p *poller) open(s *Store) {
	p.s, p.kick = s, make(chan struct{}, 1)
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.watches = map[string]map[*watch]struct{}{}
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
	if id.Owner != "" {
		w.owner = digest(id.Owner)
	} else if states, err := s.poller.look(ctx, [][]*watch{{w}}); err == nil {
		w.seen = &states[0]
	} else {
		w.missed = true
	}
	p := &s.poller
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	if p.watches[w.key] == nil {
		p.watches[w.key] = map[*watch]struct{}{}
	}
	p.watches[w.key][w] = struct{}{}
	p.news = time.Now()
	context.AfterFunc(ctx, func() { p.remove(w) })
	if !p.running {
		p.running = true
		p.wg.Go(p.run)
	}
	return w.wake
}

func (p *poller) remove(w *watch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.watches[w.key], w)
	if len(p.watches[w.key]) == 0 {
		delete(p.watches, w.key)
	}
}

// soon polls at once if this process watches a key.
func (p *poller) soon(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.watches[key]) > 0 {
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
		all := make([][]*watch, 0, len(p.watches))
		for _, watches := range p.watches {
			all = append(all, slices.Collect(maps.Keys(watches)))
		}
		p.mu.Unlock()
		if p.poll(all) {
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

// poll looks up the watches of each key and wakes those with news. It reports whether the server
// answered.
func (p *poller) poll(all [][]*watch) (ok bool) {
	ok = true
	for some := range slices.Chunk(all, pollStep) {
		ctx, cancel := context.WithTimeout(p.ctx, pollLimit)
		states, err := p.look(ctx, some)
		cancel()
		ok = ok && err == nil
		for i, w := range slices.Concat(some...) {
			if err != nil {
				w.missed = true
			} else if wake, news := w.next(&states[i]); news {
				w.notify(wake)
				p.mu.Lock()
				p.news = time.Now()
				p.mu.Unlock()
			}
		}
	}
	return ok
}

// next compares a state with the last one, and reports whether the watch is woken.
func (w *watch) next(is *state) (driver.Wake, bool) {
	was, missed := w.seen, w.missed
	w.seen, w.missed = is, false
	if is.pushed > 0 {
		fresh := is.pushed != w.pushed
		w.pushed = is.pushed
		return driver.Wake{Granted: true, Fence: uint64(is.pushed), Behind: int(is.entries)}, fresh || missed
	}
	if missed {
		return driver.Wake{}, true
	}
	if was == nil { // what happened since Watch returned is visible in the state, or may be
		return driver.Wake{}, is.kept || is.entries == 0 && (!is.held || is.others > 0)
	}
	return driver.Wake{}, is.records != was.records ||
		is.news != was.news && (w.owner == nil || is.entries == 0)
}

// notify makes the channel ready. A grant replaces an unread value.
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
// its watches.
func condition(watches []*watch) string {
	key := "lock_key = " + hexOf(watches[0].key)
	if len(watches) > fewOwners {
		return key + " AND (slot = '' OR pushed = 1)"
	}
	slots := []string{"''"}
	for _, w := range watches {
		if w.owner != nil {
			slots = append(slots, hexOf(w.owner))
		}
	}
	return key + " AND slot IN " + list(slots...)
}

// look returns the state of each watch, in order. A key without a row has the zero state.
func (p *poller) look(ctx context.Context, all [][]*watch) ([]state, error) {
	conditions := make([]string, len(all))
	for i, watches := range all {
		conditions[i] = condition(watches)
	}
	rows, err := p.s.query(ctx, p.s.claims, "SELECT lock_key, slot, owner, news, records, entries, others,"+
		" owner IS NOT NULL AND live, kept AND live, IF(pushed AND live, fence, 0) FROM ("+
		"SELECT *, broken IS NULL AND ends > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS live"+
		" FROM distlock_claim WHERE "+strings.Join(conditions, " OR ")+") c")
	if err != nil {
		return nil, err
	}
	keys, grants := map[string]state{}, map[[2]string]int64{}
	for _, cells := range rows {
		r := reader{cells: cells}
		key, slot, owner := r.text(), r.text(), r.text()
		st := state{news: r.number(), records: r.number(), entries: r.number(), others: r.number(),
			held: r.number() != 0, kept: r.number() != 0}
		grants[[2]string{key, owner}] = r.number()
		if r.err != nil {
			return nil, r.err
		}
		if slot == "" {
			keys[key] = st
		}
	}
	var states []state
	for _, w := range slices.Concat(all...) {
		st := keys[w.key]
		if w.owner != nil {
			st.pushed = grants[[2]string{w.key, string(w.owner)}]
		}
		states = append(states, st)
	}
	return states, nil
}
