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
	"github.com/distlock/distlock/internal/pgwire"
	"github.com/distlock/distlock/internal/sqlrow"
)

const (
	// watchLimit is how long Watch waits for the listening connection before it returns nil.
	watchLimit = 2 * time.Second

	// observeFor is how long a key remembers that a process watches it without a claim. The process
	// renews the record three times as often.
	observeFor = time.Minute

	// pingAfter is the time without notifications after which the listening connection is pinged.
	pingAfter = 30 * time.Second
)

// Watch returns a channel that is ready when id may be granted. All watches of a process share one
// connection.
func (s *Store) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	if id.Key == "" || s.closed.Load() {
		return nil
	}
	l := &s.listener
	w := l.add(id)
	if w == nil {
		return nil
	}
	if id.Owner == "" {
		recorded := make(chan struct{})
		if !l.spawn(func() { s.observe(ctx, id.Key, recorded) }) {
			return nil
		}
		select { // after this a release knows about the observer
		case <-recorded:
		case <-ctx.Done():
		case <-time.After(watchLimit):
		}
	}
	context.AfterFunc(ctx, func() { l.remove(w) })
	limit := time.NewTimer(watchLimit)
	defer limit.Stop()
	select {
	case <-l.up:
		return w.wake
	case <-ctx.Done():
		return w.wake
	case <-l.polling:
		return nil
	case <-limit.C:
		return nil
	}
}

// observe records again and again that this process watches a key, until ctx ends or the store is
// closed.
func (s *Store) observe(ctx context.Context, key string, recorded chan struct{}) {
	tick := time.NewTicker(observeFor / 3)
	defer tick.Stop()
	for {
		// Only a hint.
		_, _ = s.query(ctx, &s.st.watch, []byte(sqlrow.Storable(key)), appendInterval(nil, observeFor))
		if recorded != nil {
			close(recorded)
			recorded = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-s.listener.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// A listener is the connection that listens, and its watches. It connects at the first watch.
type listener struct {
	s       *Store
	conf    *pgx.ConnConfig // nil: the configuration of the pool
	ctx     context.Context
	stop    context.CancelFunc
	wg      sync.WaitGroup
	begin   sync.Once
	up      chan struct{} // closed when it listens for the first time
	polling chan struct{} // closed when the listener gives up, so that waiters poll
	upOnce  sync.Once

	mu      sync.Mutex
	closed  bool
	byOwner map[string][]*watch // by hash
	byKey   map[string][]*watch // by hash
}

type watch struct {
	owner string // its hash; "" for an observer without a claim
	key   string // its hash
	wake  chan driver.Wake
}

func (l *listener) open(s *Store, conf *pgx.ConnConfig) {
	l.s, l.conf = s, conf
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.up, l.polling = make(chan struct{}), make(chan struct{})
	l.byOwner, l.byKey = map[string][]*watch{}, map[string][]*watch{}
	if s.opt.Polling {
		close(l.polling)
	}
}

func (l *listener) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.stop()
	l.wg.Wait()
}

// spawn runs a function in a goroutine. close waits for it. spawn reports whether it started.
func (l *listener) spawn(run func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.wg.Go(run)
	}
	return !l.closed
}

// address returns the channel of this process, or "" if nobody listens there.
func (l *listener) address() string {
	select {
	case <-l.polling:
		return ""
	default:
		return l.s.channel
	}
}

// add adds a watch. The first watch starts listening.
func (l *listener) add(id driver.ID) *watch {
	w := &watch{key: hashOf(id.Key)[:16], wake: make(chan driver.Wake, 1)}
	if id.Owner != "" {
		w.owner = hashOf(id.Owner)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.begin.Do(func() {
		if !l.s.opt.Polling {
			l.wg.Go(l.receive)
		}
	})
	l.byKey[w.key] = append(l.byKey[w.key], w)
	if w.owner != "" {
		l.byOwner[w.owner] = append(l.byOwner[w.owner], w)
	}
	return w
}

// hashOf returns the form of keys and owners in messages: not every listener may know them. The
// hash of an owner must be unique, because a message with it reports a grant.
func hashOf(text string) string {
	h := sha256.Sum256([]byte(sqlrow.Storable(text)))
	return hex.EncodeToString(h[:16])
}

func (l *listener) remove(w *watch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	drop(l.byKey, w.key, w)
	if w.owner != "" {
		drop(l.byOwner, w.owner, w)
	}
}

func drop(m map[string][]*watch, name string, w *watch) {
	others := slices.DeleteFunc(m[name], func(o *watch) bool { return o == w })
	if m[name] = others; len(others) == 0 {
		delete(m, name)
	}
}

// receive keeps the connection open until the store is closed.
func (l *listener) receive() {
	for try := 1; l.ctx.Err() == nil; try++ {
		began := time.Now()
		if polling := l.listen(); polling {
			l.giveUp()
			return
		}
		if time.Since(began) > time.Minute {
			try = 1
		}
		select {
		case <-l.ctx.Done():
		case <-time.After(backoff.Pause(try, 10*time.Millisecond, time.Second)):
		}
	}
}

// listen listens until the connection fails. It reports whether trying again is useless, because no
// message arrives behind a pooler.
func (l *listener) listen() (polling bool) {
	open := l.connect
	if l.s.brief {
		open = l.share
	}
	conn, err := open()
	if err != nil || conn == nil {
		return err == nil
	}
	conn.Watch(nil)
	l.upOnce.Do(func() { close(l.up) })
	l.wakeAll() // messages may have been lost before
	tick := time.NewTicker(pingAfter)
	defer tick.Stop()
	for err == nil {
		select {
		case <-l.ctx.Done():
			err = l.ctx.Err()
		case <-conn.Ended():
			err = conn.Err()
		case <-tick.C:
			ctx, cancel := context.WithTimeout(l.ctx, watchLimit)
			err = conn.Ping(ctx)
			cancel()
		}
	}
	if !l.s.brief || l.ctx.Err() == nil {
		conn.End()
	}
	return false
}

// connect makes a connection that listens. It returns nil if there is a pooler.
func (l *listener) connect() (*pgwire.Conn, error) {
	c, err := l.dial()
	if err != nil {
		return nil, err
	}
	v, err := look(l.ctx, c)
	if err == nil && !v.pooled {
		sql := l.s.st.listen[0].sql + "; " + l.s.st.listen[1].sql
		_, err = c.PgConn().Exec(l.ctx, sql).ReadAll()
	}
	if err != nil || v.pooled {
		closeConn(c)
		return nil, err
	}
	return pgwire.New(c.PgConn(), l.deliver)
}

func (l *listener) dial() (*pgx.Conn, error) {
	if l.conf == nil {
		return l.s.connect(l.ctx)
	}
	ctx, cancel := context.WithTimeout(l.ctx, connectLimit)
	defer cancel()
	return pgx.ConnectConfig(ctx, l.conf.Copy())
}

// giveUp makes all waiters poll from now on.
func (l *listener) giveUp() {
	close(l.polling)
	l.wakeAll()
}

// deliver wakes the watches that a message names. On the channel of this process, a message names
// an owner that was granted its claim, with the fence and the number of waiters behind it. On the
// channel of the schema, a message names a key, after "k" for all watchers and "o" for observers
// without a claim.
func (l *listener) deliver(channel, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if channel == l.s.channel {
		var owner string
		wake := driver.Wake{Granted: true}
		n, err := fmt.Sscanf(message, "%s %d %d", &owner, &wake.Fence, &wake.Behind)
		if n != 3 || err != nil {
			return // not a message of this package
		}
		for _, w := range l.byOwner[owner] {
			w.notify(wake)
		}
		return
	}
	if message == "" {
		return
	}
	for _, w := range l.byKey[message[1:]] {
		if message[0] == 'k' || w.owner == "" {
			w.notify(driver.Wake{})
		}
	}
}

func (l *listener) wakeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ws := range l.byKey {
		for _, w := range ws {
			w.notify(driver.Wake{})
		}
	}
}

// notify makes the channel ready. A grant replaces an unread value. The mutex of the listener is
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
