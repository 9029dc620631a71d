// Package redis is a store on a Redis or Valkey server: one server, one with replicas and Sentinel, or a cluster.
//
// It links no client. Package goredis makes a store of a go-redis client, package rueidis of a rueidis client or a URL.
//
// An exclusive claim is the plain key "lock:NAME" with the owner for a value and a time to live. Programs that lock by
// SET NX PX and a compare-and-delete script on the same key exclude distlock, and are excluded by it.
//
// # What is not guaranteed
//
// Redis replicates after it has answered. A failover may forget the last claims, and then two may hold one: the
// later one has the higher fence, unless the new primary's clock is behind. Options.Replicas makes this rarer
// and not impossible. A server whose clock is set forward ends claims early.
// A server that evicts keys may evict claims: see Inspect.
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

// mark is what a name holds while shared claims live. It is no owner.
const mark = "distlock:shared"

// renewStep is how many claims one script renews. A script of this many keeps the server for about 2 ms.
const renewStep = 500

// Options change what a store does. The zero value of each field is its default.
type Options struct {
	// Prefix is what the names of all keys begin with. The default is "lock:". It may not have braces.
	Prefix string

	// Replicas is how many replicas must have a grant before it is one: WAIT is sent after it, and
	// if too few answer within ReplicaTimeout, the claim is given back and the answer is
	// driver.ErrUnavailable. A claim that the owner had already, or that was handed on to it, stays, and the
	// outcome is unknown. The default is 0: none is asked.
	Replicas       int
	ReplicaTimeout time.Duration // 100 ms if 0
}

// A Store keeps claims on Redis.
type Store struct {
	client  Client
	scripts scripts
	prefix  string
	channel string // of this process, after a letter for the way to tell it
	opt     Options
	feeds   feeds
	aged    atomic.Bool // Acquire tells the age: see Inspect
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
		return nil, fmt.Errorf("redis: %d replicas within %v cannot be waited for", s.opt.Replicas, s.opt.ReplicaTimeout)
	}
	s.scripts = loadScripts(s.floorKey())
	s.channel = s.prefix + "wake:" + rand.Text()
	s.feeds.open()
	return s, nil
}

// Close ends the store's subscriptions. Claims stay as they are.
func (s *Store) Close() error {
	s.feeds.close()
	return s.client.Close()
}

// Features declares everything. With Options.Replicas a grant that too few replicas have is undone, so
// an owner must not use another store at the same time.
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
	if r.Owner == mark {
		return driver.Result{}, fmt.Errorf("%w: %q cannot be an owner", driver.ErrInvalid, mark)
	}
	f := newFrame()
	defer f.free()
	f.name(s.prefix, r.Key, hashPart, setPart)
	if s.aged.Load() {
		f.text(s.birthKey())
		f.keys++
	}
	f.text(r.Owner)
	f.life(r.TTL)
	s.appendData(f, &r)
	plain := r.Weight == driver.Whole && r.QueueTTL == 0
	if r.Floor > 0 || !plain {
		f.number(int64(r.Floor))
	}
	if !plain {
		f.terms(&r)
	}
	res, err := s.ask(ctx, f, r)
	if errors.Is(err, errForgets) {
		if _, _, err := s.birth(ctx); err != nil {
			return driver.Result{}, definite(r.Key, err)
		}
		return s.ask(ctx, f, r)
	}
	return res, err
}

// ask sends the call that Acquire has made.
func (s *Store) ask(ctx context.Context, f *frame, r driver.Request) (driver.Result, error) {
	if s.opt.Replicas > 0 {
		return s.replicated(ctx, f, r)
	}
	text, err := s.run(ctx, f, &s.scripts.acquire)
	if err != nil {
		return driver.Result{}, definite(r.Key, err)
	}
	return result(r.Key, r.Floor, text)
}

// appendData adds the end of a claim's record: that it is not kept, how long the next two parts are, and then who (holder, party
// and meta, each as "length:text"), the channel of a place, and the value.
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

// Release ends a claim or gives up a place.
func (s *Store) Release(ctx context.Context, id driver.ID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if id.Key == "" || id.Owner == "" || id.Owner == mark {
		return driver.ErrNotHeld // nobody can have it
	}
	f := newFrame()
	defer f.free()
	f.name(s.prefix, id.Key, hashPart, setPart)
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

// run runs a script on the keys and texts of a frame. A server that does not know the script has done
// nothing, and is told it whole.
func (s *Store) run(ctx context.Context, f *frame, sc *script) (string, error) {
	c := f.call(sc)
	c.Renewal = sc == &s.scripts.renew
	text, err := s.client.Run(ctx, c)
	if unknownScript(err) {
		c.Verb, c.Script = "EVAL", sc.text
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

// replied returns what the server answered, if the error came from there.
func replied(err error) string {
	var reply ReplyError
	errors.As(err, &reply)
	return string(reply)
}
