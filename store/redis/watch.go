package redis

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/backoff"
)

const (
	// watchLimit is how long Watch waits for a subscription before it returns nil.
	watchLimit = 2 * time.Second

	// observeTTL is how long a key remembers that a process observes it without a claim. The
	// process repeats the note three times as often.
	observeTTL = time.Minute
)

// Watch returns a channel that is ready when id may be granted.
//
// Outside a cluster all owners of a process are notified on one channel. On a cluster there is a
// channel for each key and process, since a script may only publish to channels of its own slot.
// Watching a key without an owner takes a channel of that key.
func (s *Store) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	channel, sharded := s.channel, s.client.Cluster()
	switch {
	case id.Key == "":
		return nil
	case id.Owner == "":
		channel = string(s.appendSlot(nil, id.Key)) + "wake"
	case sharded:
		channel = string(s.appendChannel(nil, id.Key)[1:])
	}
	//nolint:contextcheck // a subscription serves many watches, and ends with the last of them
	sub := s.subs.get(channel, func(ctx context.Context, sub *subscription) {
		if id.Owner == "" {
			sub.wg.Go(func() { s.observe(ctx, sub, id.Key) })
		}
		sub.hints = s.opt.Replicas > 0
		sub.receive(ctx, s.client, channel, sharded)
	})
	if sub == nil {
		return nil // the store is closed
	}
	w := sub.add(id.Owner)
	drop := func() {
		sub.remove(w)
		if channel != s.channel {
			s.subs.put(channel, sub)
		}
	}
	stop := context.AfterFunc(ctx, drop)
	if sub.ready(ctx, id.Owner == "") {
		return w.wake
	}
	if stop() {
		drop() // the caller calls Watch again before each attempt
	}
	return nil
}

// appendSlot appends the beginning of the names of channels that scripts of a key may publish to.
func (s *Store) appendSlot(b []byte, key string) []byte {
	return append(appendName(append(b, '{'), s.prefix, key), '}', ':')
}

// appendChannel appends the channel on which the owners of this process that wait for a key are
// notified, after a letter for the command: "p" for PUBLISH, "s" for SPUBLISH.
func (s *Store) appendChannel(b []byte, key string) []byte {
	if !s.client.Cluster() {
		return append(append(b, 'p'), s.channel...)
	}
	return append(s.appendSlot(append(b, 's'), key), s.channel...)
}

// observe notes on a key, again and again, that this process observes it. It closes marked after
// the first note.
func (s *Store) observe(ctx context.Context, sub *subscription, key string) {
	way := "p"
	if s.client.Cluster() {
		way = "s"
	}
	marked := false
	for try := 1; ; try++ {
		f := newFrame()
		s.name(f, key)
		f.life(observeTTL)
		f.text(way)
		_, err := s.run(ctx, f, &s.scripts.watch)
		f.free()
		pause := observeTTL / 3
		switch {
		case err == nil && !marked:
			marked = true
			close(sub.marked)
		case err != nil && !marked: // Watch waits for it
			pause = backoff.Pause(try, 10*time.Millisecond, time.Second)
		case err != nil: // the note is a hint: observers also poll from time to time
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// subscriptions are the subscriptions of a store, by channel.
type subscriptions struct {
	mu   sync.Mutex
	all  map[string]*subscription // nil: closed
	ctx  context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup
}

func (ss *subscriptions) open() {
	ss.all = map[string]*subscription{}
	ss.ctx, ss.stop = context.WithCancel(context.Background())
}

func (ss *subscriptions) close() {
	ss.mu.Lock()
	ss.all = nil
	ss.mu.Unlock()
	ss.stop()
	ss.wg.Wait()
}

// get returns the subscription to a channel, and starts it if there is none. Each get must be
// followed by a put, except for the channel of the process.
func (ss *subscriptions) get(channel string, run func(context.Context, *subscription)) *subscription {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.all == nil {
		return nil
	}
	sub := ss.all[channel]
	if sub == nil {
		sub = &subscription{
			up: make(chan struct{}), down: make(chan struct{}), marked: make(chan struct{}),
			watches: map[string][]*watch{},
		}
		ss.all[channel] = sub
		var ctx context.Context
		ctx, sub.stop = context.WithCancel(ss.ctx)
		ss.wg.Go(func() {
			run(ctx, sub)
			sub.wg.Wait()
		})
	}
	sub.users++
	return sub
}

// put ends a subscription without users.
func (ss *subscriptions) put(channel string, sub *subscription) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if sub.users--; sub.users == 0 {
		sub.stop()
		if ss.all[channel] == sub {
			delete(ss.all, channel)
		}
	}
}

// A subscription receives the messages of one channel for its watches.
type subscription struct {
	users int // guarded by subscriptions.mu
	stop  context.CancelFunc
	wg    sync.WaitGroup
	up    chan struct{} // closed when the subscription becomes active for the first time
	once  sync.Once
	down  chan struct{} // closed when the first attempt to subscribe has failed

	// marked is closed when the key has a note of its observers. It is only for watches without an
	// owner.
	marked chan struct{}

	// hints says that messages report no grants: a grant counts when replicas have it, and a
	// release does not wait for that.
	hints bool

	mu      sync.Mutex
	watches map[string][]*watch // by owner
}

type watch struct {
	owner string
	wake  chan driver.Wake
}

// ready waits until the subscription is active, and for observers until the key has a note of them:
// without the note a release does not notify them. It returns true if so, or if ctx has ended. It
// does not wait for a subscription that the server refuses: that would delay the attempt.
func (sub *subscription) ready(ctx context.Context, observer bool) bool {
	limit := time.NewTimer(watchLimit)
	defer limit.Stop()
	waits := []<-chan struct{}{sub.up}
	if observer {
		waits = append(waits, sub.marked)
	}
	for _, ready := range waits {
		select {
		case <-ready:
			continue
		default:
		}
		select {
		case <-ready:
		case <-ctx.Done():
			return true
		case <-sub.down:
			return false
		case <-limit.C:
			return false
		}
	}
	return true
}

// receive keeps the subscription alive until ctx ends.
func (sub *subscription) receive(ctx context.Context, c Client, channel string, sharded bool) {
	up := func() {
		sub.once.Do(func() { close(sub.up) })
		sub.wakeAll() // messages may have been missed
	}
	first := true
	for try := 1; ctx.Err() == nil; try++ {
		began := time.Now()
		_ = c.Receive(ctx, channel, sharded, up, sub.deliver) // the loop subscribes again after any error
		if first {
			first = false
			close(sub.down)
		}
		if time.Since(began) > time.Minute {
			try = 1
		}
		select {
		case <-ctx.Done():
		case <-time.After(backoff.Pause(try, 10*time.Millisecond, time.Second)):
		}
	}
}

func (sub *subscription) add(owner string) *watch {
	w := &watch{owner: owner, wake: make(chan driver.Wake, 1)}
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.watches[owner] = append(sub.watches[owner], w)
	return w
}

func (sub *subscription) remove(w *watch) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	rest := slices.DeleteFunc(sub.watches[w.owner], func(o *watch) bool { return o == w })
	if sub.watches[w.owner] = rest; len(rest) == 0 {
		delete(sub.watches, w.owner)
	}
}

// deliver wakes the owner that a message names: "fence behind owner".
func (sub *subscription) deliver(message string) {
	r := reader{rest: message}
	wake := driver.Wake{Fence: uint64(r.number()), Behind: int(r.number())}
	if r.err != nil {
		return // the message of another program
	}
	if wake.Granted = wake.Fence > 0; sub.hints {
		wake = driver.Wake{}
	}
	sub.mu.Lock()
	defer sub.mu.Unlock()
	for _, w := range sub.watches[r.rest] {
		w.send(wake)
	}
}

func (sub *subscription) wakeAll() {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	for _, ws := range sub.watches {
		for _, w := range ws {
			w.send(driver.Wake{})
		}
	}
}

func (w *watch) send(wake driver.Wake) {
	select {
	case w.wake <- wake:
	default: // the channel is already ready
	}
}
