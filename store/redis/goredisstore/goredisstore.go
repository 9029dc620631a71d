// Package goredisstore makes a store of a go-redis client.
package goredisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/redis"
)

// Options are those of the store: see [redis.Options].
type Options = redis.Options

// reserved is how many connections renewals have to themselves, on each server. One is enough for the
// renewals of a process; the second is for the time in which a broken one is replaced.
const reserved = 2

// grace is how long a call that is under way may go on after its ctx is over. Most are done by then, and their outcome is
// known; one that was given up earlier might take effect after the caller has cleared up.
const grace = 50 * time.Millisecond

// errMoved says that the server has ended a subscription because the slot of the channel went to another node.
var errMoved = errors.New("goredis: the channel has moved to another node")

// New returns a store on a client: a *redis.Client, which may be one for Sentinel, or a *redis.ClusterClient. The
// client stays the caller's: close the store first, and then the client.
//
// Scripts are sent once, whatever the client's MaxRetries is, and a call ends with its ctx, whatever
// its ContextTimeoutEnabled is. Renewals go over connections of their own, made with the client's options: they do not wait for
// the pool. On a cluster each key that is waited for takes a connection more.
//
// Other clients are refused. A Ring gives a key to another server when one does not answer. An AutoPipeliner does not tell with
// which options it connects, which renewals need, nor whether to a cluster: give the client that it was made of.
func New(c goredis.UniversalClient, opt *Options) (*redis.Store, error) {
	switch c := c.(type) {
	case *goredis.Client:
		if c == nil {
			break
		}
		o := *c.Options()
		o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = reserved, 1, reserved, 0
		o.MaxRetries, o.ContextTimeoutEnabled = -1, true
		o.ReadTimeout, o.WriteTimeout = again(o.ReadTimeout), again(o.WriteTimeout)
		o.PushNotificationProcessor = nil // one for each client
		return redis.New(&client{c: c, renewals: goredis.NewClient(&o)}, opt)
	case *goredis.ClusterClient:
		if c == nil {
			break
		}
		o := *c.Options()
		o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = reserved, 0, reserved, 0
		o.MaxRetries, o.ContextTimeoutEnabled = -1, true
		o.ReadTimeout, o.WriteTimeout = again(o.ReadTimeout), again(o.WriteTimeout)
		o.PushNotificationProcessor = nil
		return redis.New(&client{c: c, cluster: c, renewals: goredis.NewClusterClient(&o)}, opt)
	case *goredis.Ring:
		return nil, errors.New("goredis: a ring gives a key to another server when one does not answer, and two would hold one claim: give the client of one server, or a majority of them to store/quorum")
	case *goredis.AutoPipeliner:
		return nil, errors.New("goredis: an AutoPipeliner does not tell its options, with which renewals connect: give the client that it was made of")
	}
	return nil, fmt.Errorf("goredis: %T is neither a *redis.Client nor a *redis.ClusterClient, and may send scripts twice: give one of these", c)
}

// again is a timeout as the options of a client want it, which say 0 for the default and -1 for none, made of
// what a client says, which has 0 for none.
func again(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// A client is a go-redis client as the store needs it.
type client struct {
	c        goredis.UniversalClient
	cluster  *goredis.ClusterClient // c, if it is one
	renewals goredis.UniversalClient
	wg       sync.WaitGroup // calls that were given up, and end by themselves
}

// once is a command that is never sent again: nobody knows whether it was done.
type once struct{ *goredis.Cmd }

// NoRetry is what go-redis asks before it sends a command again.
func (once) NoRetry() bool { return true }

func command(ctx context.Context, call redis.Call) once {
	args := make([]any, 0, 3+len(call.Keys)+len(call.Args))
	args = append(args, call.Verb, call.Script, len(call.Keys))
	for _, k := range call.Keys {
		args = append(args, k)
	}
	for _, a := range call.Args {
		args = append(args, a)
	}
	return once{goredis.NewCmd(ctx, args...)}
}

// Run runs a script.
func (c *client) Run(ctx context.Context, call redis.Call) (string, error) {
	cmd, by := command(ctx, call), c.c
	if call.Renewal {
		by = c.renewals
	}
	err := c.bounded(ctx, func() { _ = by.Process(ctx, cmd) })
	text := ""
	if err == nil {
		text, err = cmd.Text()
		err = wrap(err)
	}
	seek(ctx, by, err)
	return text, err
}

// seek makes a client of a cluster look anew which node has which slots, after a call that a node did not answer: another may have
// taken its place. By itself go-redis looks only before it sends a command again, which it must not, and once a minute. MOVED
// is an answer that RunWait does not follow. It looks in the background, and not again while it does, so a crowd of such calls costs
// no more than one.
func seek(ctx context.Context, by goredis.UniversalClient, err error) {
	cluster, ok := by.(*goredis.ClusterClient)
	if !ok || err == nil {
		return
	}
	var reply redis.ReplyError
	if !errors.As(err, &reply) || strings.HasPrefix(string(reply), "MOVED ") {
		cluster.ReloadState(ctx)
	}
}

// bounded makes a call and returns when it is done, or soon after ctx is over. go-redis looks at the deadline of ctx if it is
// told to, and never at its end.
func (c *client) bounded(ctx context.Context, call func()) error {
	if ctx.Done() == nil {
		call()
		return nil
	}
	done := make(chan struct{})
	c.wg.Go(func() {
		call()
		close(done)
	})
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case <-done:
		return nil
	case <-late.C:
		return ctx.Err()
	}
}

// RunWait runs a script and WAIT on one connection.
func (c *client) RunWait(ctx context.Context, call redis.Call, replicas int, within time.Duration) (string, int, error) {
	key, cmd, wait := call.Keys[0], command(ctx, call), once{goredis.NewCmd(ctx, "WAIT", replicas, within.Milliseconds())}
	err := c.bounded(ctx, func() {
		one, ok := c.c.(*goredis.Client)
		if !ok {
			var err error
			if one, err = c.cluster.MasterForKey(ctx, key); err != nil {
				cmd.SetErr(err)
				return
			}
		}
		conn := one.Conn()
		defer conn.Close()
		if conn.Process(ctx, cmd) == nil {
			_ = conn.Process(ctx, wait)
		}
	})
	text, have := "", 0
	if err == nil {
		if text, err = cmd.Text(); err == nil {
			have, err = wait.Int()
		}
		err = wrap(err)
	}
	seek(ctx, c.c, err)
	return text, have, err
}

// RunAll runs many scripts.
func (c *client) RunAll(ctx context.Context, calls []redis.Call) []redis.Answer {
	cmds, by := make([]once, len(calls)), c.c
	for i, call := range calls {
		cmds[i] = command(ctx, call)
		if call.Renewal {
			by = c.renewals
		}
	}
	out := make([]redis.Answer, len(calls))
	err := c.bounded(ctx, func() {
		pipe := by.Pipeline()
		for _, cmd := range cmds {
			_ = pipe.Process(ctx, cmd)
		}
		_, _ = pipe.Exec(ctx) // each command has its own error
	})
	for i := range out {
		if out[i].Err = err; err == nil {
			out[i].Text, out[i].Err = cmds[i].Text()
			out[i].Err = wrap(out[i].Err)
		}
		seek(ctx, by, out[i].Err)
	}
	return out
}

// wrap tells errors of the server from all others.
func wrap(err error) error {
	var reply goredis.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, goredis.ErrClosed), errors.Is(err, goredis.ErrPoolTimeout), errors.Is(err, goredis.ErrPoolExhausted):
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err) // it was not sent
	case errors.As(err, &reply):
		return redis.ReplyError(reply.Error())
	}
	return err
}

// Each calls f for every primary.
func (c *client) Each(ctx context.Context, f func(redis.Node) error) error {
	if c.cluster == nil {
		return f(server{c.c})
	}
	var mu sync.Mutex
	var nodes []*goredis.Client
	err := c.cluster.ForEachMaster(ctx, func(_ context.Context, n *goredis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, n)
		return nil
	})
	if err != nil {
		return wrap(err)
	}
	for _, n := range nodes {
		if err := f(server{n}); err != nil {
			return err
		}
	}
	return nil
}

// A server is one node.
type server struct {
	c interface {
		Do(ctx context.Context, args ...any) *goredis.Cmd
	}
}

// Do sends a command.
func (s server) Do(ctx context.Context, args ...string) (any, error) {
	list := make([]any, len(args))
	for i, a := range args {
		list[i] = a
	}
	v, err := s.c.Do(ctx, list...).Result()
	return plain(v), wrap(err)
}

// plain is a reply as strings, numbers and lists.
func plain(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case map[any]any:
		var out []any
		for k, one := range v {
			out = append(out, plain(k), plain(one))
		}
		return out
	}
	return v
}

// Receive subscribes to a channel. The client makes the subscription anew by itself, and looks every few seconds
// whether the connection still answers.
func (c *client) Receive(ctx context.Context, channel string, sharded bool, up func(), news func(string)) error {
	subscribe := c.c.Subscribe
	if sharded {
		subscribe = c.c.SSubscribe
	}
	sub := subscribe(ctx, channel)
	defer sub.Close()
	stop := context.AfterFunc(ctx, func() { sub.Close() }) // Receive does not look at ctx while it reads
	defer stop()
	if _, err := sub.Receive(ctx); err != nil { // the channel below keeps errors to itself
		err = wrap(err)
		seek(ctx, c.c, err)
		return err
	}
	up()
	all := sub.ChannelWithSubscriptions()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case one, ok := <-all:
			switch m := one.(type) {
			case *goredis.Subscription:
				switch m.Kind {
				case "subscribe", "ssubscribe":
					up()
				case "sunsubscribe":
					return errMoved // nobody here asked for it
				}
			case *goredis.Message:
				news(m.Payload)
			}
			if !ok {
				return goredis.ErrClosed
			}
		}
	}
}

// Cluster tells whether this is a cluster.
func (c *client) Cluster() bool { return c.cluster != nil }

// Close closes the connections for renewals.
func (c *client) Close() error {
	err := c.renewals.Close()
	c.wg.Wait()
	return err
}
