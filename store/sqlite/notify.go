package sqlite

import (
	"context"
	"crypto/rand"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
)

// The folder for sockets has the name of the file plus wakeSuffix.
const wakeSuffix = "-wake"

// observeTTL is how long a key's row lists a process that watches the key without a claim. The
// process renews its entry three times in that time.
const observeTTL = time.Minute

// A wakeup is a hint for the watchers of a process, and the socket of that process. An empty socket
// is this process.
type wakeup struct {
	socket, hint string
	pushed       *pushed // a grant that a watcher of this process is notified of
}

// A pushed is a grant that an owner got when another claim ended.
type pushed struct {
	id   driver.ID
	wake driver.Wake
}

// A watch is one watcher of this process.
type watch struct {
	id   driver.ID
	wake chan driver.Wake
}

// Hints identify an owner or a key by its tag, so that no owner leaves its process. Two watchers
// with the same tag are woken together, which does no harm.
func ownerHint(owner string) string { return "o" + driver.Tag(owner) }
func keyHint(key string) string     { return "k" + driver.Tag(key) }

func socketName() string { return strconv.Itoa(os.Getpid()) + "-" + rand.Text()[:12] }

// A notifier delivers hints: directly within the process, and by sockets to other processes.
type notifier struct {
	folder, name string
	off          bool // there are no sockets

	mu      sync.Mutex
	watches map[string][]watch // by hint
	socket  *socket            // nil until the first watch
	failed  bool
	closed  bool
	done    chan struct{} // closed by close
	wg      sync.WaitGroup
}

// address returns the name of this process's socket, which a queue entry stores.
func (n *notifier) address() string {
	if n.off {
		return ""
	}
	return n.name
}

// Watch returns a channel that is ready when id may be granted.
func (s *Store) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	hint := ownerHint(id.Owner)
	if id.Owner == "" {
		hint = keyHint(id.Key)
	}
	wake := make(chan driver.Wake, 1)
	if !s.notifier.add(hint, watch{id, wake}) {
		return nil
	}
	if id.Owner == "" && !s.notifier.off && id.Key != "" {
		s.observe(ctx, id.Key) // the watch must be in force when Watch returns
		s.notifier.wg.Go(func() { s.keepObserving(ctx, id.Key) })
	}
	context.AfterFunc(ctx, func() { s.notifier.remove(hint, wake) })
	return wake
}

// keepObserving renews this process's entry in a key's row until ctx or the store ends.
func (s *Store) keepObserving(ctx context.Context, name string) {
	tick := time.NewTicker(observeTTL / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.notifier.done:
			return
		case <-tick.C:
			s.observe(ctx, name)
		}
	}
}

// observe adds this process to the observers in a key's row, or renews its entry. If that fails,
// the watcher still polls.
func (s *Store) observe(ctx context.Context, name string) {
	_ = s.write(ctx, call{limit: busyLimit}, func(t *tx) error {
		k, err := t.load(name)
		if err != nil {
			return err
		}
		k.observers = slices.DeleteFunc(k.observers, func(o observer) bool { return o.socket == s.notifier.name })
		k.observers = append(k.observers, observer{s.notifier.name, after(t.now, observeTTL)})
		return t.save(k)
	})
}

// add adds a watch, and opens the socket for the first one. It returns false if no socket can be
// opened.
func (n *notifier) add(hint string, w watch) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return false
	}
	if n.socket == nil && !n.off && !n.failed {
		var err error
		if n.socket, err = listen(n.folder, n.name); err != nil {
			n.failed = true
		} else {
			n.wg.Go(func() { n.socket.receive(n.deliver) })
		}
	}
	if n.failed {
		return false // without a watch a waiter polls, which is better than half of the hints
	}
	if n.watches == nil {
		n.watches = map[string][]watch{}
	}
	n.watches[hint] = append(n.watches[hint], w)
	return true
}

func (n *notifier) remove(hint string, wake chan driver.Wake) {
	n.mu.Lock()
	defer n.mu.Unlock()
	others := slices.DeleteFunc(n.watches[hint], func(w watch) bool { return w.wake == wake })
	if n.watches[hint] = others; len(others) == 0 {
		delete(n.watches, hint)
	}
}

// watched reports whether a watcher of this process waits for a claim.
func (n *notifier) watched(id driver.ID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.ContainsFunc(n.watches[ownerHint(id.Owner)], func(w watch) bool { return w.id == id })
}

// deliver wakes the watchers in this process that wait for a hint.
func (n *notifier) deliver(hint string) { n.push(hint, pushed{}) }

// push wakes the watchers in this process that wait for a hint. That of a grant is notified of it.
func (n *notifier) push(hint string, p pushed) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range n.watches[hint] {
		wake := driver.Wake{}
		if w.id == p.id {
			wake = p.wake
		}
		select {
		case w.wake <- wake:
		default: // the channel is already ready
		}
	}
}

// send delivers hints to this process and to others. If a hint does not arrive, the waiter's next
// poll makes up for it.
func (n *notifier) send(wakeups []wakeup) {
	for _, w := range wakeups {
		switch {
		case w.pushed != nil:
			n.push(w.hint, *w.pushed)
		case w.socket == "" || w.socket == n.name:
			n.deliver(w.hint)
		case !n.off:
			_ = sendHint(n.folder, w.socket, w.hint)
		}
	}
}

// close closes the socket, and ends the goroutines of all watches.
func (n *notifier) close() {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return
	}
	n.closed = true
	close(n.done)
	sock := n.socket
	n.mu.Unlock()
	if sock != nil {
		sock.close()
	}
}
