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

// wakeSuffix makes the name of the folder for sockets of the name of the file.
const wakeSuffix = "-wake"

// onlook is how long a key remembers that another process watches it without a claim. It is told again three times as often.
const onlook = time.Minute

// A poke is news for those who watch, at the socket of their process. An empty socket is our own.
type poke struct{ socket, news string }

// News name an owner or a key by their tags, so that no owner leaves its process. Two that have the same tag are
// woken together: it is a hint.
func ownerNews(owner string) string { return "o" + driver.Tag(owner) }
func keyNews(key string) string     { return "k" + driver.Tag(key) }

func socketName() string { return strconv.Itoa(os.Getpid()) + "-" + rand.Text()[:12] }

// A post hands out news: within the process at once, to others by their sockets.
type post struct {
	folder, name string
	off          bool // there are no sockets

	mu      sync.Mutex
	watches map[string][]chan driver.Wake // by news
	socket  *socket                       // nil until somebody watches
	failed  bool
	closed  bool
	over    chan struct{} // closed by close
	wg      sync.WaitGroup
}

// address is what a place in line says of where its owner is told.
func (p *post) address() string {
	if p.off {
		return ""
	}
	return p.name
}

// Watch returns a channel that is ready when id may be granted.
func (s *Store) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	news := ownerNews(id.Owner)
	if id.Owner == "" {
		news = keyNews(id.Key)
	}
	wake := make(chan driver.Wake, 1)
	if !s.post.add(news, wake) {
		return nil
	}
	if id.Owner == "" && !s.post.off && id.Key != "" {
		s.look(ctx, id.Key) // before Watch returns: it is in force then
		s.post.wg.Go(func() { s.onlook(ctx, id.Key) })
	}
	context.AfterFunc(ctx, func() { s.post.remove(news, wake) })
	return wake
}

// onlook tells a key again and again that it is watched.
func (s *Store) onlook(ctx context.Context, name string) {
	tick := time.NewTicker(onlook / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.post.over:
			return
		case <-tick.C:
			s.look(ctx, name)
		}
	}
}

// look tells a key that this process watches it. It is a hint: if it fails, whoever watches asks from time to time.
func (s *Store) look(ctx context.Context, name string) {
	_ = s.write(ctx, call{limit: busyLimit}, func(t *tx) error {
		k, err := t.load(name)
		if err != nil {
			return err
		}
		k.onlookers = slices.DeleteFunc(k.onlookers, func(o onlooker) bool { return o.socket == s.post.name })
		k.onlookers = append(k.onlookers, onlooker{s.post.name, after(t.now, onlook)})
		return t.save(k)
	})
}

// add begins a watch, and the socket with the first one. It reports false if there can be no socket.
func (p *post) add(news string, wake chan driver.Wake) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	if p.socket == nil && !p.off && !p.failed {
		var err error
		if p.socket, err = listen(p.folder, p.name); err != nil {
			p.failed = true
		} else {
			p.wg.Go(func() { p.socket.receive(p.hear) })
		}
	}
	if p.failed {
		return false // those who wait are better off with their poll than with half of the news
	}
	if p.watches == nil {
		p.watches = map[string][]chan driver.Wake{}
	}
	p.watches[news] = append(p.watches[news], wake)
	return true
}

func (p *post) remove(news string, wake chan driver.Wake) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rest := slices.DeleteFunc(p.watches[news], func(c chan driver.Wake) bool { return c == wake })
	if p.watches[news] = rest; len(rest) == 0 {
		delete(p.watches, news)
	}
}

// hear wakes those who watch for the news.
func (p *post) hear(news string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, wake := range p.watches[news] {
		select {
		case wake <- driver.Wake{}:
		default: // it is ready already
		}
	}
}

// send tells news to those they are for. What does not arrive is made good by the polls of those who wait.
func (p *post) send(pokes []poke) {
	for _, k := range pokes {
		if k.socket == "" || k.socket == p.name {
			p.hear(k.news)
		} else if !p.off {
			_ = tell(p.folder, k.socket, k.news)
		}
	}
}

// close ends the socket, and what waits for it.
func (p *post) close() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	close(p.over)
	sock := p.socket
	p.mu.Unlock()
	if sock != nil {
		sock.close()
	}
}
