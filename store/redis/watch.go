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
	// watchLimit is how long Watch waits for a subscription before it says that it cannot.
	watchLimit = 2 * time.Second

	// onlook is how long a key remembers that somebody watches it without a claim. It is told again three times as often.
	onlook = time.Minute
)

// Watch returns a channel that is ready when id may be granted.
//
// Outside a cluster all owners of a process are told on one channel. On a cluster each key has one
// for the process, since a script may only tell a channel of its own slot. Watching a key without an owner
// takes a channel of that key.
func (s *Store) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	channel, sharded := s.channel, s.client.Cluster()
	switch {
	case id.Key == "":
		return nil
	case id.Owner == "":
		channel = string(s.appendBeside(nil, id.Key)) + "wake"
	case sharded:
		channel = string(s.appendChannel(nil, id.Key)[1:])
	}
	//nolint:contextcheck // a feed serves many watches, and ends with the last of them
	f := s.feeds.get(channel, func(ctx context.Context, f *feed) {
		if id.Owner == "" {
			f.wg.Go(func() { s.onlook(ctx, f, id.Key) })
		}
		f.hints = s.opt.Replicas > 0
		f.receive(ctx, s.client, channel, sharded)
	})
	if f == nil {
		return nil // the store is closed
	}
	w := f.add(id.Owner)
	drop := func() {
		f.remove(w)
		if channel != s.channel {
			s.feeds.put(channel, f)
		}
	}
	stop := context.AfterFunc(ctx, drop)
	if f.ready(ctx, id.Owner == "") {
		return w.wake
	}
	if stop() {
		drop() // whoever waits tries again before each ask
	}
	return nil
}

// appendBeside appends the beginning of the names of channels that are told by scripts of a key.
func (s *Store) appendBeside(b []byte, key string) []byte {
	return append(appendName(append(b, '{'), s.prefix, key), '}', ':')
}

// appendChannel appends where the owners of this process that wait for a key are told, after a letter for the way: "p" for
// PUBLISH, "s" for SPUBLISH.
func (s *Store) appendChannel(b []byte, key string) []byte {
	if !s.client.Cluster() {
		return append(append(b, 'p'), s.channel...)
	}
	return append(s.appendBeside(append(b, 's'), key), s.channel...)
}

// onlook tells a key again and again that it is watched, and closes marked when it was told for the first time.
func (s *Store) onlook(ctx context.Context, fd *feed, key string) {
	way := "p"
	if s.client.Cluster() {
		way = "s"
	}
	marked := false
	for try := 1; ; try++ {
		f := newFrame()
		f.name(s.prefix, key, hashPart, setPart)
		f.life(onlook)
		f.text(way)
		_, err := s.run(ctx, f, &s.scripts.watch)
		f.free()
		pause := onlook / 3
		switch {
		case err == nil && !marked:
			marked = true
			close(fd.marked)
		case err != nil && !marked: // somebody waits for it
			pause = backoff.Pause(try, 10*time.Millisecond, time.Second)
		case err != nil: // it is a hint: whoever watches asks from time to time
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// feeds are the subscriptions of a store, by channel.
type feeds struct {
	mu   sync.Mutex
	all  map[string]*feed // nil: closed
	ctx  context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup
}

func (fs *feeds) open() {
	fs.all = map[string]*feed{}
	fs.ctx, fs.stop = context.WithCancel(context.Background())
}

func (fs *feeds) close() {
	fs.mu.Lock()
	fs.all = nil
	fs.mu.Unlock()
	fs.stop()
	fs.wg.Wait()
}

// get returns the subscription to a channel, and begins it if there is none. Each get but of the process's own
// channel is followed by a put.
func (fs *feeds) get(channel string, run func(context.Context, *feed)) *feed {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.all == nil {
		return nil
	}
	f := fs.all[channel]
	if f == nil {
		f = &feed{up: make(chan struct{}), down: make(chan struct{}), marked: make(chan struct{}), watches: map[string][]*watch{}}
		fs.all[channel] = f
		var ctx context.Context
		ctx, f.stop = context.WithCancel(fs.ctx)
		fs.wg.Go(func() {
			run(ctx, f)
			f.wg.Wait()
		})
	}
	f.users++
	return f
}

// put ends a subscription that nobody uses any more.
func (fs *feeds) put(channel string, f *feed) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f.users--; f.users == 0 {
		f.stop()
		if fs.all[channel] == f {
			delete(fs.all, channel)
		}
	}
}

// A feed is one subscription, and those who are told by it.
type feed struct {
	users int // guarded by the mu of feeds
	stop  context.CancelFunc
	wg    sync.WaitGroup
	up    chan struct{} // closed when the subscription is in force for the first time
	once  sync.Once
	down  chan struct{} // closed when the first try to subscribe has failed

	marked chan struct{} // closed when the key knows that it is watched: of a feed for those without an owner
	hints  bool          // nobody is told of grants: they count when replicas have them, for which a release does not wait

	mu      sync.Mutex
	watches map[string][]*watch // by owner
}

type watch struct {
	owner string
	wake  chan driver.Wake
}

// ready waits until the subscription is in force, and for onlookers until the key knows of them: without that a release tells
// nobody. It reports whether it is, or ctx is over. One that the server refuses is not waited for: it would hold up an ask.
func (f *feed) ready(ctx context.Context, onlooker bool) bool {
	limit := time.NewTimer(watchLimit)
	defer limit.Stop()
	waits := []<-chan struct{}{f.up}
	if onlooker {
		waits = append(waits, f.marked)
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
		case <-f.down:
			return false
		case <-limit.C:
			return false
		}
	}
	return true
}

// receive keeps up the subscription until ctx is over.
func (f *feed) receive(ctx context.Context, c Client, channel string, sharded bool) {
	up := func() {
		f.once.Do(func() { close(f.up) })
		f.wakeAll() // news may have been missed
	}
	first := true
	for try := 1; ctx.Err() == nil; try++ {
		began := time.Now()
		_ = c.Receive(ctx, channel, sharded, up, f.news) // whatever ended it, it is made anew
		if first {
			first = false
			close(f.down)
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

func (f *feed) add(owner string) *watch {
	w := &watch{owner: owner, wake: make(chan driver.Wake, 1)}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watches[owner] = append(f.watches[owner], w)
	return w
}

func (f *feed) remove(w *watch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	rest := slices.DeleteFunc(f.watches[w.owner], func(o *watch) bool { return o == w })
	if f.watches[w.owner] = rest; len(rest) == 0 {
		delete(f.watches, w.owner)
	}
}

// news tells the owner that a message names: "fence behind owner".
func (f *feed) news(message string) {
	r := reader{rest: message}
	told := driver.Wake{Fence: uint64(r.number()), Behind: int(r.number())}
	if r.err != nil {
		return // another program's
	}
	if told.Granted = told.Fence > 0; f.hints {
		told = driver.Wake{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.watches[r.rest] {
		w.poke(told)
	}
}

func (f *feed) wakeAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, ws := range f.watches {
		for _, w := range ws {
			w.poke(driver.Wake{})
		}
	}
}

func (w *watch) poke(told driver.Wake) {
	select {
	case w.wake <- told:
	default: // it is ready already
	}
}
