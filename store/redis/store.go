// Package redis is a store on Redis or Valkey: one server, a server with replicas and Sentinel, or
// a cluster.
//
// The package links no client. Package goredisstore makes a [Store] from a go-redis client, package
// rueidisstore from a rueidis client or a URL.
//
// An exclusive claim is the plain Redis key "lock:NAME". Its value is the owner, and it has a time
// to live. Programs that lock by SET NX PX and a compare-and-delete script on the same Redis key
// exclude distlock, and distlock excludes them.
//
// # What is not guaranteed
//
// Redis replicates a write after it has answered. A failover may forget the last claims, and then
// two clients may hold one claim. The later claim has the higher fencing token, unless the clock of
// the new primary is behind. [Options].Replicas makes this less likely, not impossible. A server
// whose clock is set forward ends claims early. A server that evicts keys may evict claims: see
// [Store.Inspect].
package redis

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/distlock/distlock/driver"
)

// own begins the values of a Redis key that are no owner: see docs/layout.md.
const own = "distlock:"

func reserved(owner string) bool { return strings.HasPrefix(owner, own) }

// renewStep is how many claims one script renews. Such a script blocks the server for about 2 ms.
const renewStep = 500

// Options configure a store. The zero value of each field means its default.
type Options struct {
	// Prefix is the prefix of all Redis keys. The default is "lock:". It must not contain braces.
	Prefix string

	// Replicas is how many replicas must have a grant before it counts. The store sends WAIT after
	// the grant. If too few replicas answer within ReplicaTimeout, the store releases the claim and
	// returns driver.ErrUnavailable. A claim that the owner already had, or that was handed to it,
	// stays, and the outcome is unknown. The default is 0: the store does not wait for replicas.
	Replicas       int
	ReplicaTimeout time.Duration // 100 ms if 0
}

// A Store keeps claims on Redis.
type Store struct {
	client  Client
	scripts scripts
	prefix  string
	channel string // the channel of this process
	opt     Options
	subs    subscriptions
	aged    atomic.Bool // Acquire returns the age: see Inspect
}

// New returns a store on a client. Close the store before the client.
func New(c Client, opt *Options) (*Store, error) {
	s := &Store{client: c}
	if opt != nil {
		s.opt = *opt
	}
	s.opt.Prefix = cmp.Or(s.opt.Prefix, "lock:")
	s.opt.ReplicaTimeout = cmp.Or(s.opt.ReplicaTimeout, 100*time.Millisecond)
	s.prefix = s.opt.Prefix
	switch {
	case c == nil:
		return nil, errors.New("redis: the client is nil")
	case strings.ContainsAny(s.prefix, "{}"):
		return nil, fmt.Errorf("redis: the prefix %q has braces, which decide the node of a key", s.prefix)
	case s.opt.Replicas < 0 || s.opt.ReplicaTimeout < time.Millisecond:
		return nil, fmt.Errorf("redis: cannot wait for %d replicas within %v",
			s.opt.Replicas, s.opt.ReplicaTimeout)
	}
	s.scripts = loadScripts(s.floorKey())
	s.channel = s.prefix + "wake:" + rand.Text()
	s.subs.open()
	return s, nil
}

// Close ends the store's subscriptions. Claims stay as they are.
func (s *Store) Close() error {
	s.subs.close()
	return s.client.Close()
}

// Features returns the features of the store: all of them, except AnyServer with
// [Options].Replicas. A grant that too few replicas have is undone, and a late undo could end the
// grant of another Store.
func (s *Store) Features() driver.Features {
	f := features()
	f.AnyServer = s.opt.Replicas == 0
	return f
}

func features() driver.Features {
	return driver.Features{
		Name: "redis", Fence: true, Floor: true, Count: true, Queue: true, Value: true, Keep: true,
		Expiry: true, Detached: true,
		MinTTL: time.Millisecond,
	}
}

// Acquire grants or refuses a claim.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	if err := cmp.Or(ctx.Err(), r.Validate(features())); err != nil {
		return driver.Result{}, err
	}
	if reserved(r.Owner) {
		return driver.Result{}, fmt.Errorf("%w: no owner begins with %q", driver.ErrInvalid, own)
	}
	f := newFrame()
	defer f.free()
	s.name(f, r.Key)
	f.text(r.Owner)
	f.life(r.TTL)
	s.appendData(f, &r)
	plain, aged := r.Weight == driver.Whole && r.QueueTTL == 0, s.aged.Load()
	if r.Floor > 0 || !plain || aged {
		f.number(int64(r.Floor))
	}
	switch {
	case !plain:
		f.terms(&r)
	case aged:
		f.text("")
	}
	if aged {
		f.text(s.birthKey())
	}
	res, err := s.acquire(ctx, f, r)
	if errors.Is(err, errForgets) {
		if _, _, err := s.birth(ctx); err != nil {
			return driver.Result{}, definite(r.Key, err)
		}
		return s.acquire(ctx, f, r)
	}
	return res, err
}

// acquire sends the call that Acquire has built.
func (s *Store) acquire(ctx context.Context, f *frame, r driver.Request) (driver.Result, error) {
	if s.opt.Replicas > 0 {
		return s.replicated(ctx, f, r)
	}
	text, err := s.run(ctx, f, &s.scripts.acquire)
	if err != nil {
		return driver.Result{}, definite(r.Key, err)
	}
	return result(r.Key, r.Floor, text)
}

// appendData adds the end of a claim's record: "0" for not kept, the lengths of the next two parts,
// then who (holder, task and meta, each as "length:text"), the channel of a queue entry, and the
// value.
func (s *Store) appendData(f *frame, r *driver.Request) {
	f.buf = append(f.buf, "0 "...)
	f.buf = strconv.AppendInt(f.buf, int64(whoSize(r)), 10)
	f.buf = append(f.buf, ' ')
	if r.QueueTTL > 0 {
		f.channel = s.appendChannel(f.channel[:0], r.Key)
		f.buf = strconv.AppendInt(f.buf, int64(len(f.channel)), 10)
		f.buf = append(f.buf, '\n')
		f.who(r)
		f.buf = append(f.buf, f.channel...)
	} else {
		f.buf = append(f.buf, "0\n"...)
		f.who(r)
	}
	f.value(r.Value)
}

// Release ends a claim or removes a queue entry.
func (s *Store) Release(ctx context.Context, id driver.ID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if id.Key == "" || id.Owner == "" || reserved(id.Owner) {
		return driver.ErrNotHeld // no claim can have such an ID
	}
	f := newFrame()
	defer f.free()
	s.name(f, id.Key)
	f.text(id.Owner)
	switch text, err := s.run(ctx, f, &s.scripts.release); {
	case err != nil:
		return definite(id.Key, err)
	case text == "n":
		return driver.ErrNotHeld
	case text != "":
		return errAnswer
	}
	return nil
}

// name adds the Redis keys of a name to a call.
func (s *Store) name(f *frame, key string) {
	if s.client.Cluster() {
		f.name(s.prefix, key, parts...)
	} else {
		f.name(s.prefix, key)
	}
}

// run runs a script on the keys and arguments of a frame. A server that does not know the script
// has done nothing, and run sends the whole script.
func (s *Store) run(ctx context.Context, f *frame, sc *script) (string, error) {
	c := f.call(sc)
	c.Renewal = sc == &s.scripts.renew
	switch {
	case sc == &s.scripts.release:
		c.Merge = 2
	case sc == &s.scripts.acquire && len(c.Args) == 3:
		c.Merge = 1
	}
	text, err := s.client.Run(ctx, c)
	if unknownScript(err) {
		c.Verb, c.Script, c.Merge = "EVAL", sc.text, 0
		text, err = s.client.Run(ctx, c)
	}
	if err != nil {
		err = s.elsewhere(err)
	}
	return text, err
}

func unknownScript(err error) bool {
	return err != nil && strings.HasPrefix(replied(err), "NOSCRIPT")
}

// replied returns the error text of the server, or "" if err has another origin.
func replied(err error) string {
	var reply ReplyError
	errors.As(err, &reply)
	return string(reply)
}
