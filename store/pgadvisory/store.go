package pgadvisory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/keeper"
)

// maxTTL is below the longest idle_session_timeout, which is 2^31-1 milliseconds.
const maxTTL = 24 * 24 * time.Hour

// Options configure a store. The zero value of each field is its default.
type Options struct {
	// Conns is the maximum number of connections that acquire locks. The default is 4. One is
	// enough for any number of keys. More connections do more at a time, separate claims with
	// different TTLs, and let readers of one key have connections of their own.
	Conns int

	// Waits is the maximum number of further connections on which a waiter stands in the server's
	// queue. The default is 4; -1 means none. All other waiters poll.
	Waits int

	// Schema is the schema of the sequence advisory_fence. The default is "distlock". New creates
	// both if they are missing and the role may: see [Migration].
	Schema string

	// Unfenced works without the sequence. Then claims have no fences, and Features reports so.
	Unfenced bool
}

// A Store keeps claims as advisory locks.
type Store struct {
	config *pgconn.Config
	opt    Options
	clock  *keeper.Clock
	number func(name string) int64 // Key

	created bool // New created the sequence

	running context.Context // ends when the store is closed
	stop    context.CancelFunc
	wg      sync.WaitGroup // readers, waits

	mu              sync.Mutex // guards all below
	closed          bool
	links           map[*link]bool
	dialing         int           // connections being made to acquire locks
	connectingWaits int           // connections being made to wait
	scarce          time.Time     // when the last connection failed
	changed         chan struct{} // closed when a connection may be available
	claims          map[driver.ID]*claim
	byKey           map[int64]map[*claim]bool
	waiters         map[driver.ID]chan driver.Wake // watchers of an owner, which stands in the queue
	watchers        map[chan driver.Wake]int64     // watchers of a number
	losses          []chan []driver.ID
}

// New returns a store on the server of a configuration, as returned by [pgx.ParseConfig]. New
// connects. It fails if there is no server, if a pooler does not keep connections apart, or if
// fences are impossible. The store uses a copy of the configuration, and only its own connections.
func New(ctx context.Context, config *pgx.ConnConfig, opt *Options) (*Store, error) {
	if config == nil {
		return nil, errors.New("pgadvisory: the configuration is nil")
	}
	s := &Store{
		config: config.Config.Copy(), clock: keeper.NewClock(), number: Key, changed: make(chan struct{}),
		links: map[*link]bool{}, claims: map[driver.ID]*claim{}, byKey: map[int64]map[*claim]bool{},
		waiters: map[driver.ID]chan driver.Wake{}, watchers: map[chan driver.Wake]int64{},
	}
	if opt != nil {
		s.opt = *opt
	}
	if err := s.opt.complete(); err != nil {
		return nil, err
	}
	if s.config.RuntimeParams["application_name"] == "" {
		if s.config.RuntimeParams == nil {
			s.config.RuntimeParams = map[string]string{}
		}
		s.config.RuntimeParams["application_name"] = applicationName()
	}
	if err := s.setUp(ctx); err != nil {
		return nil, err
	}
	s.running, s.stop = context.WithCancel(context.Background())
	s.wg.Go(s.sweep)
	return s, nil
}

func (o *Options) complete() error {
	switch {
	case o.Conns < 0 || o.Conns > 1000:
		return fmt.Errorf("pgadvisory: Conns is %d, want 1 to 1000, or 0 for 4", o.Conns)
	case o.Waits < -1 || o.Waits > 1000:
		return fmt.Errorf("pgadvisory: Waits is %d, want 1 to 1000, 0 for 4, or -1 for none",
			o.Waits)
	case len(o.Schema) > 63 || strings.ContainsRune(o.Schema, 0):
		return errors.New("pgadvisory: Schema is not a valid name in PostgreSQL")
	}
	o.Conns, o.Waits = cmp.Or(o.Conns, 4), cmp.Or(o.Waits, 4)
	o.Schema = cmp.Or(o.Schema, defaultSchema)
	return nil
}

// applicationName is the name of the store's connections, for people.
func applicationName() string {
	host, _ := os.Hostname()
	name := fmt.Sprintf("distlock %s[%d]@%s", filepath.Base(os.Args[0]), os.Getpid(), host)
	return name[:min(len(name), 63)] // the server would truncate it with a warning
}

// Created reports whether [New] created the sequence of fences: see [Migration].
func (s *Store) Created() bool { return s.created }

// Features declares the features of an advisory lock.
func (s *Store) Features() driver.Features {
	return driver.Features{Name: "pgadvisory", Fence: !s.opt.Unfenced, Expiry: true, MaxTTL: maxTTL}
}

// fenceSQL returns the expression for the fence of a grant.
func (s *Store) fenceSQL() string {
	if s.opt.Unfenced {
		return "0::bigint"
	}
	return nextFence(s.opt.Schema)
}

// Close closes the store and its connections, and so ends every claim.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.stop()
	s.change()
	for l := range s.links {
		waits := l.waits
		s.wg.Go(func() {
			if waits {
				l.Cancel(s.running)
			}
			l.End()
		})
	}
	s.mu.Unlock()
	s.wg.Wait()
	return nil
}

// change wakes goroutines that wait for a connection. s.mu is held.
func (s *Store) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}

var _ interface {
	driver.Watcher
	driver.Shower
	driver.AllRenewer
	driver.Inspector
} = (*Store)(nil)
