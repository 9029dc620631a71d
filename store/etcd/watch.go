package etcd

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/distlock/distlock/driver"
)

// watches has one watch of etcd for every name that this process waits for.
type watches struct {
	store *Store
	mu    sync.Mutex // guards all mirrors too
	names map[string]*mirror
}

// A mirror follows the claims and the queue of one name, to wake the watcher of the head.
type mirror struct {
	space
	stop context.CancelFunc
	subs map[*sub]struct{}
	*state
}

// A sub is one watcher.
type sub struct {
	owner string // the hash; "": it waits for the end of any claim
	wake  chan driver.Wake
}

func (w *sub) ready() {
	select {
	case w.wake <- driver.Wake{}:
	default: // the channel is already ready
	}
}

// Watch returns a channel that is ready when id may be granted. The end of a TTL makes it ready too.
func (s *Store) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	if !valid(id.Key) || s.ctx.Err() != nil {
		return nil
	}
	w := &sub{wake: make(chan driver.Wake, 1)}
	if id.Owner != "" {
		w.owner = hashOf(id.Owner)
	}
	ws := &s.watch
	ws.mu.Lock()
	defer ws.mu.Unlock()
	m := ws.names[id.Key]
	if m == nil {
		follow, stop := context.WithCancel(s.ctx)
		m = &mirror{space: s.space(id.Key), stop: stop, subs: map[*sub]struct{}{}}
		ws.names[id.Key] = m
		s.wg.Go(func() { ws.follow(follow, m) })
	}
	m.subs[w] = struct{}{}
	context.AfterFunc(ctx, func() {
		ws.mu.Lock()
		defer ws.mu.Unlock()
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
	m.state = st
	for w := range m.subs {
		w.ready()
	}
}

// observe applies the changes after a revision until the watch ends.
func (ws *watches) observe(ctx context.Context, m *mirror, revision int64) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ch := ws.store.client.Watcher.Watch(clientv3.WithRequireLeader(ctx), m.base,
		clientv3.WithRange(after(m.base)), clientv3.WithRev(revision+1))
	for resp := range ch {
		if resp.Err() != nil {
			return
		}
		ws.apply(m, resp.Events)
	}
}

// apply applies the changes of one or more whole revisions, and wakes the watchers that are concerned.
func (ws *watches) apply(m *mirror, events []*clientv3.Event) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	freed, kept := false, false // a claim has ended or became lighter; a claim became a record
	for _, e := range events {
		was := m.remove(string(e.Kv.Key))
		it := (*item)(nil)
		if e.Type == mvccpb.Event_PUT {
			if it = itemOf(m.base, e.Kv); it != nil {
				m.add(it)
			}
		}
		if was != nil && !was.waits {
			freed = freed || it == nil || it.Weight < was.Weight
			kept = kept || it != nil && it.Kept
		}
	}
	m.sort()
	head := ""
	if len(m.queue) > 0 && m.fits(m.queue[0].owner, m.queue[0].Weight, m.queue[0].Limit) {
		head = m.queue[0].owner
	}
	for w := range m.subs {
		switch {
		case kept, freed && (w.owner == "" || len(m.queue) == 0), head != "" && w.owner == head:
			w.ready()
		}
	}
}

// remove removes the item of a key, and returns it.
func (m *mirror) remove(key string) *item {
	kind, owner, _ := strings.Cut(strings.TrimPrefix(key, m.base), "/")
	list := &m.claims
	if kind == "q" {
		list = &m.queue
	}
	i := index(*list, owner)
	if i < 0 {
		return nil
	}
	it := (*list)[i]
	*list = append((*list)[:i:i], (*list)[i+1:]...)
	return it
}
