package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/backoff"
)

const (
	// watchLimit is how long Watch waits for the connection that listens before it says that it cannot.
	watchLimit = 2 * time.Second

	// onlook is how long a key remembers that somebody watches it without a claim. It is told again three times as often.
	onlook = time.Minute

	// silence is after how long the connection that listens is asked whether it is there.
	silence = 30 * time.Second
)

// Watch returns a channel that is ready when id may be granted. All watches of a process share one connection.
func (s *Store) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	if id.Key == "" || s.closed.Load() {
		return nil
	}
	f := &s.feed
	w := f.add(id) //nolint:contextcheck // the connection that listens is for all who watch
	if w == nil {
		return nil
	}
	if id.Owner == "" {
		told := make(chan struct{})
		if !f.beside(func() { s.onlook(ctx, id.Key, told) }) {
			return nil
		}
		select { // from here on a release knows that somebody watches
		case <-told:
		case <-ctx.Done():
		case <-time.After(watchLimit):
		}
	}
	context.AfterFunc(ctx, func() { f.remove(w) })
	limit := time.NewTimer(watchLimit)
	defer limit.Stop()
	select {
	case <-f.up:
		return w.wake
	case <-ctx.Done():
		return w.wake
	case <-f.deaf:
		return nil
	case <-limit.C:
		return nil
	}
}

// onlook tells a key again and again that it is watched, until ctx is over or the store is closed.
func (s *Store) onlook(ctx context.Context, key string, told chan struct{}) {
	tick := time.NewTicker(onlook / 3)
	defer tick.Stop()
	for {
		_, _ = s.query(ctx, &s.st.watch, []byte(storable(key)), appendLife(nil, onlook)) // it is a hint
		if told != nil {
			close(told)
			told = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-s.feed.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// A feed is the connection that listens, and those who are told by it. It is made with the first watch.
type feed struct {
	s      *Store
	conf   *pgx.ConnConfig // nil: that of the pool
	ctx    context.Context
	stop   context.CancelFunc
	wg     sync.WaitGroup
	begin  sync.Once
	up     chan struct{} // closed when it listens for the first time
	deaf   chan struct{} // closed when it is known that it cannot
	upOnce sync.Once

	mu      sync.Mutex
	closed  bool
	byOwner map[string][]*watch // by hash
	byKey   map[string][]*watch // by hash
}

type watch struct {
	owner string // its hash; "" for an onlooker
	key   string // its hash
	wake  chan driver.Wake
}

func (f *feed) open(s *Store, conf *pgx.ConnConfig) {
	f.s, f.conf = s, conf
	f.ctx, f.stop = context.WithCancel(context.Background())
	f.up, f.deaf = make(chan struct{}), make(chan struct{})
	f.byOwner, f.byKey = map[string][]*watch{}, map[string][]*watch{}
	if s.opt.Polling {
		close(f.deaf)
	}
}

func (f *feed) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.stop()
	f.wg.Wait()
}

// beside runs f until the feed is closed, which waits for it. It reports whether it began.
func (f *feed) beside(run func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.wg.Go(run)
	}
	return !f.closed
}

// address is the channel of this process; "" if nobody listens there.
func (f *feed) address() string {
	select {
	case <-f.deaf:
		return ""
	default:
		return f.s.channel
	}
}

// add adds a watch, and begins to listen with the first.
func (f *feed) add(id driver.ID) *watch {
	w := &watch{key: hashOf(id.Key)[:16], wake: make(chan driver.Wake, 1)}
	if id.Owner != "" {
		w.owner = hashOf(id.Owner)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	f.begin.Do(func() {
		switch {
		case f.s.opt.Polling:
		case f.s.brief:
			f.s.claims.share()
		default:
			f.wg.Go(f.receive)
		}
	})
	f.byKey[w.key] = append(f.byKey[w.key], w)
	if w.owner != "" {
		f.byOwner[w.owner] = append(f.byOwner[w.owner], w)
	}
	return w
}

// hashOf is how messages name keys and owners, which not everybody who listens may know. An owner is told of a grant, so
// that no two may have the same.
func hashOf(text string) string {
	h := sha256.Sum256([]byte(storable(text)))
	return hex.EncodeToString(h[:16])
}

func (f *feed) remove(w *watch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	drop(f.byKey, w.key, w)
	if w.owner != "" {
		drop(f.byOwner, w.owner, w)
	}
}

func drop(m map[string][]*watch, name string, w *watch) {
	rest := slices.DeleteFunc(m[name], func(o *watch) bool { return o == w })
	if m[name] = rest; len(rest) == 0 {
		delete(m, name)
	}
}

// receive keeps up the connection until the store is closed.
func (f *feed) receive() {
	for try := 1; f.ctx.Err() == nil; try++ {
		began := time.Now()
		if deaf := f.listen(); deaf {
			f.giveUp()
			return
		}
		if time.Since(began) > time.Minute {
			try = 1
		}
		select {
		case <-f.ctx.Done():
		case <-time.After(backoff.Pause(try, 10*time.Millisecond, time.Second)):
		}
	}
}

// listen listens until the connection fails. It reports whether there is no use in trying again: behind a pooler a
// message reaches nobody.
func (f *feed) listen() (deaf bool) {
	conn, err := f.connect()
	if err != nil {
		return false
	}
	defer closeConn(conn)
	if v, err := look(f.ctx, conn); err != nil || v.pooled {
		return err == nil
	}
	if err := f.subscribe(f.ctx, conn); err != nil {
		return false
	}
	for {
		ctx, cancel := context.WithTimeout(f.ctx, silence)
		n, err := conn.WaitForNotification(ctx)
		cancel()
		switch {
		case err == nil:
			f.news(n.Channel, n.Payload)
		case f.ctx.Err() != nil:
			return false
		default:
			ctx, cancel := context.WithTimeout(f.ctx, watchLimit)
			err := conn.Ping(ctx)
			cancel()
			if err != nil {
				return false
			}
		}
	}
}

// subscribe makes the server send notifications to a connection.
func (f *feed) subscribe(ctx context.Context, conn *pgx.Conn) error {
	for _, channel := range []string{f.s.names.channel, f.s.channel} {
		if _, err := conn.PgConn().Exec(ctx, "listen "+pgx.Identifier{channel}.Sanitize()).ReadAll(); err != nil {
			return err
		}
	}
	f.upOnce.Do(func() { close(f.up) })
	f.wakeAll() // news may have been missed
	return nil
}

// giveUp makes all who wait poll from now on.
func (f *feed) giveUp() {
	close(f.deaf)
	f.wakeAll()
}

func (f *feed) connect() (*pgx.Conn, error) {
	if f.conf == nil {
		return f.s.connect(f.ctx)
	}
	ctx, cancel := context.WithTimeout(f.ctx, connectLimit)
	defer cancel()
	return pgx.ConnectConfig(ctx, f.conf.Copy())
}

// news wakes whom a message names: on the channel of this process an owner that was granted its claim, with the fence and how
// many wait behind; on that of the schema a key, after "k" for all who watch it and "o" for onlookers.
func (f *feed) news(channel, message string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if channel == f.s.channel {
		var owner string
		wake := driver.Wake{Granted: true}
		if n, err := fmt.Sscanf(message, "%s %d %d", &owner, &wake.Fence, &wake.Behind); n != 3 || err != nil {
			return // it is none of ours
		}
		for _, w := range f.byOwner[owner] {
			w.poke(wake)
		}
		return
	}
	if message == "" {
		return
	}
	for _, w := range f.byKey[message[1:]] {
		if message[0] == 'k' || w.owner == "" {
			w.poke(driver.Wake{})
		}
	}
}

func (f *feed) wakeAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, ws := range f.byKey {
		for _, w := range ws {
			w.poke(driver.Wake{})
		}
	}
}

// poke makes the channel ready. A grant takes the place of what has not been read. The lock of the feed is held.
func (w *watch) poke(wake driver.Wake) {
	if wake.Granted {
		select {
		case <-w.wake:
		default:
		}
	}
	select {
	case w.wake <- wake:
	default: // it is ready already
	}
}
