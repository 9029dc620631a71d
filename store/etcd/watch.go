package etcd

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/distlock/distlock/driver"
)

// watches has one watch of etcd for every name that this process waits for, all on one stream.
type watches struct {
	store   *Store
	pulse   time.Duration // between two tests of the stream
	guarded sync.Once
	mu      sync.Mutex // guards all mirrors too
	stream  clientv3.Watcher
	names   map[string]*mirror
}

// A mirror follows the claims and the queue of one name, to wake the watcher of the head.
type mirror struct {
	space
	stop    context.CancelFunc
	subs    map[*sub]struct{}
	byOwner map[string]map[*sub]struct{}
	heard   time.Time // the last answer; zero: there is no watch now
	*state
	entries map[string]*item // those of the queue, by owner
}

// A sub is one watcher.
type sub struct {
	owner string // the hash; "": it waits for the end of any claim
	wake  chan driver.Wake
}

// ready makes the channel ready. The mutex of the watches is held: nobody else sends.
func (w *sub) ready(wake driver.Wake) {
	if wake.Granted {
		select {
		case <-w.wake: // it says less
		default:
		}
	}
	select {
	case w.wake <- wake:
	default: // the channel is already ready
	}
}

// Watch returns a channel that is ready when id may be granted. The end of a TTL makes it ready
// too.
func (s *Store) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	if !valid(id.Key) || s.ctx.Err() != nil {
		return nil
	}
	w := &sub{wake: make(chan driver.Wake, 1)}
	if id.Owner != "" {
		w.owner = hashOf(id.Owner)
	}
	ws := &s.watch
	ws.guarded.Do(func() { s.wg.Go(ws.guard) })
	ws.mu.Lock()
	defer ws.mu.Unlock()
	m := ws.names[id.Key]
	if m == nil {
		follow, stop := context.WithCancel(s.ctx)
		m = &mirror{space: s.space(id.Key), stop: stop, subs: map[*sub]struct{}{}, byOwner: map[string]map[*sub]struct{}{}}
		ws.names[id.Key] = m
		s.wg.Go(func() { ws.follow(follow, m) })
	}
	m.subs[w] = struct{}{}
	if m.byOwner[w.owner] == nil {
		m.byOwner[w.owner] = map[*sub]struct{}{}
	}
	m.byOwner[w.owner][w] = struct{}{}
	context.AfterFunc(ctx, func() {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		if delete(m.byOwner[w.owner], w); len(m.byOwner[w.owner]) == 0 {
			delete(m.byOwner, w.owner)
		}
		if delete(m.subs, w); len(m.subs) == 0 && ws.names[id.Key] == m {
			delete(ws.names, id.Key)
			m.stop()
		}
	})
	return w.wake
}

const (
	// readLimit bounds the read with which a watch begins.
	readLimit = 5 * time.Second
	// pauses between two attempts to watch.
	shortPause, longPause = 20 * time.Millisecond, 2 * time.Second
)

// follow keeps the mirror up to date. Whenever the watch of etcd ends - it was too slow and its
// revisions are compacted, the member has no leader, the connection is lost - the state is read
// again, and all watchers are woken, since changes may have been missed.
func (ws *watches) follow(ctx context.Context, m *mirror) {
	for pause := shortPause; ctx.Err() == nil; {
		read, cancel := context.WithTimeout(ctx, readLimit)
		st, err := ws.store.read(read, m.space)
		cancel()
		if err == nil {
			pause = shortPause
			ws.load(m, st)
			ws.observe(ctx, m, st.revision)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause)):
		}
		pause = min(2*pause, longPause)
	}
}

// load begins with a state, and wakes all watchers: a change may have come before it.
func (ws *watches) load(m *mirror, st *state) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	m.state, m.entries = st, make(map[string]*item, len(st.queue))
	for _, it := range st.queue {
		m.entries[it.owner] = it
	}
	for w := range m.subs {
		w.ready(driver.Wake{})
	}
}

// observe applies the changes after a revision until the watch ends.
func (ws *watches) observe(ctx context.Context, m *mirror, revision int64) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ws.mu.Lock()
	stream := ws.stream
	m.heard = time.Now()
	ws.mu.Unlock()
	defer func() {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		m.heard = time.Time{}
	}()
	ch := stream.Watch(clientv3.WithRequireLeader(ctx), m.base,
		clientv3.WithRange(after(m.base)), clientv3.WithRev(revision+1))
	for resp := range ch {
		if resp.Err() != nil {
			return
		}
		ws.apply(m, resp.Events)
	}
}

// pulse is the default of watches.pulse.
const pulse = 5 * time.Second

// guard tests the stream again and again: the server answers a request for progress in all watches.
// A watch that is silent for longer than two intervals has lost its server without an error.
func (ws *watches) guard() {
	for ctx := ws.store.ctx; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(ws.pulse):
		}
		if old := ws.replace(); old != nil {
			_ = old.Close() // its watches end, and begin again with a read
		}
		ws.mu.Lock()
		stream, n := ws.stream, len(ws.names)
		ws.mu.Unlock()
		if n > 0 {
			call, cancel := context.WithTimeout(ctx, ws.pulse)
			_ = stream.RequestProgress(clientv3.WithRequireLeader(call)) // else the watches stay silent
			cancel()
		}
	}
}

// replace opens another stream if a watch is silent. It returns the one before, or nil.
func (ws *watches) replace() (old clientv3.Watcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, m := range ws.names {
		if !m.heard.IsZero() && time.Since(m.heard) > 2*ws.pulse {
			old, ws.stream = ws.stream, clientv3.NewWatcher(ws.store.client)
			return old
		}
	}
	return nil
}

// apply applies the changes of one or more whole revisions, and wakes the watchers that are
// concerned.
func (ws *watches) apply(m *mirror, events []*clientv3.Event) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	m.heard = time.Now()
	if len(events) == 0 {
		return // a report of progress
	}
	m.revision = events[len(events)-1].Kv.ModRevision
	freed, kept := false, false // a claim has ended or became lighter; a claim became a record
	ended := map[string]int64{} // the leases of entries, by owner
	pushed := map[string]*item{}
	for _, e := range events {
		was := m.remove(string(e.Kv.Key))
		it := (*item)(nil)
		if e.Type == mvccpb.Event_PUT {
			if it = itemOf(m.base, e.Kv); it != nil {
				m.insert(it)
			}
		}
		switch {
		case was != nil && was.waits && it == nil:
			ended[was.owner] = was.kv.Lease
		case was != nil && it == nil:
			delete(pushed, was.owner)
		case it != nil && !it.waits && it.kv.Lease != 0 && it.kv.Lease == ended[it.owner]:
			pushed[it.owner] = it
			ws.store.pool.adopt(m.entry(it.owner), m.claim(it.owner), it.kv)
		}
		if was != nil && !was.waits {
			freed = freed || it == nil || it.Weight < was.Weight
			kept = kept || it != nil && it.Kept
		}
	}
	wake := func(subs map[*sub]struct{}) {
		for w := range subs {
			if c := pushed[w.owner]; c != nil { // the watcher must not see less, and attempt
				w.ready(driver.Wake{Granted: true, Fence: c.fence(), Behind: len(m.queue)})
			} else {
				w.ready(driver.Wake{})
			}
		}
	}
	if kept || freed && len(m.queue) == 0 {
		wake(m.subs)
		return
	}
	if freed {
		wake(m.byOwner[""])
	}
	if len(m.queue) > 0 && m.fits(m.queue[0].owner, m.queue[0].Weight, m.queue[0].Limit) {
		wake(m.byOwner[m.queue[0].owner])
	}
	for owner := range pushed { // most events concern few of many watchers
		wake(m.byOwner[owner])
	}
}

// known returns the state of a name as its watch has reported it, with the head of the queue alone,
// or nil. The state may be old, but was right at its revision.
func (ws *watches) known(name string) *state {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	m := ws.names[name]
	if m == nil || m.heard.IsZero() {
		return nil
	}
	return &state{
		revision: m.revision, claims: slices.Clone(m.claims), queue: slices.Clone(m.queue[:min(1, len(m.queue))]),
	}
}

// long returns a length that a long queue has at least, or 0. What a watch has reported is some
// milliseconds old, so the queue must be much longer.
func (ws *watches) long(name string) int {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if m := ws.names[name]; m != nil && !m.heard.IsZero() && len(m.queue) > 4*many {
		return many + 1
	}
	return 0
}

// blocked returns the state that is known, without the queue, if its claims block an attempt that
// is about to join the queue. The transaction that joins reads the claims again.
func (ws *watches) blocked(a *attempt) *state {
	st := ws.known(a.name)
	if st == nil || a.r.QueueTTL == 0 || index(st.claims, a.owner) >= 0 || st.used()+a.r.Weight <= a.r.Limit {
		return nil
	}
	st.queue, st.more, st.part = nil, a.long, true
	return st
}

// due returns the state that is known if the attempt's entry is the head of the queue, and fits.
func (ws *watches) due(a *attempt) *state {
	st := ws.known(a.name)
	if st == nil || index(st.claims, a.owner) >= 0 || index(st.queue, a.owner) != 0 || !st.fits(a.owner, a.r.Weight, a.r.Limit) {
		return nil
	}
	return st
}

// far returns the refusal of an attempt, and a blocker, if by its watch many others are before it,
// and its entry with the lease l needs no change. Otherwise the blocker is nil.
func (ws *watches) far(a *attempt, l *lease) (res driver.Result, blocker *item) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	m := ws.names[a.name]
	if m == nil || m.heard.IsZero() || a.r.QueueTTL == 0 || index(m.claims, a.owner) >= 0 {
		return res, nil
	}
	near, at := many, m.at(a.owner)
	if len(m.queue) > many*many { // these would read a very long queue again and again
		near = 1
	}
	behind := len(m.queue) - at - 1
	switch {
	case at < 0 && len(m.queue) > many && a.pool.since(a.entry) > m.revision: // it is behind all that are known
		at, behind = len(m.queue), 0
	case at <= near || m.queue[at].kv.Lease != l.id ||
		!bytes.Equal(m.queue[at].kv.Value, recordOf(a.r, a.Store.seconds(a.r.QueueTTL, 0), m.queue[at].At).encode()):
		return res, nil
	}
	res = driver.Result{Used: m.used(), Ahead: at, Behind: behind}
	if res.Used+a.r.Weight > a.r.Limit {
		return res, m.claims[0]
	}
	return res, m.queue[0]
}

// at returns the position of an owner in the queue, or -1.
func (m *mirror) at(owner string) int {
	it := m.entries[owner]
	if it == nil {
		return -1
	}
	i, _ := slices.BinarySearchFunc(m.queue, it, order)
	return i
}

// insert adds an item at its position.
func (m *mirror) insert(it *item) {
	m.state.insert(it)
	if it.waits {
		m.entries[it.owner] = it
	}
}

// remove removes the item of a key, and returns it.
func (m *mirror) remove(key string) *item {
	kind, owner, _ := strings.Cut(strings.TrimPrefix(key, m.base), "/")
	list, i := &m.claims, index(m.claims, owner)
	if kind == "q" {
		list, i = &m.queue, m.at(owner)
		delete(m.entries, owner)
	}
	if i < 0 {
		return nil
	}
	it := (*list)[i]
	*list = slices.Delete(*list, i, i+1)
	return it
}
