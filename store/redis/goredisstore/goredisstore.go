// Package goredisstore makes a [redis.Store] from a go-redis client.
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

// Options are the options of the store: see [redis.Options].
type Options = redis.Options

// reserved is how many connections per server are reserved for renewals. One is enough for the
// renewals of a process. The second serves while a broken one is replaced.
const reserved = 2

// errMoved says that the server ended a subscription because the slot of the channel moved to
// another node.
var errMoved = errors.New("goredis: the channel has moved to another node")

// New returns a store on a client of go-redis: a *[goredis.Client], which may be a client for
// Sentinel, or a *[goredis.ClusterClient]. The client stays the caller's: close the store first,
// then the client.
//
// New sends each script once, regardless of the client's MaxRetries. A call ends with its ctx,
// regardless of the client's ContextTimeoutEnabled. Renewals use connections of their own, made
// with the client's options, and so do not wait for the pool. On a cluster each key that has
// waiters takes one more connection.
//
// New refuses other clients. A Ring moves a key to another server when a server does not answer. An
// AutoPipeliner exposes neither its options, which the connections for renewals need, nor whether
// it connects to a cluster: pass the client that it was made of.
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
		o.PushNotificationProcessor = nil // each client needs its own
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
		return nil, errors.New("goredis: a Ring moves a key to another server when a server does not answer, " +
			"and then two clients hold one claim: give the client of one server, or a majority of them to store/quorum")
	case *goredis.AutoPipeliner:
		return nil, errors.New("goredis: an AutoPipeliner does not expose its options, which the connections " +
			"for renewals need: give the client that it was made of")
	}
	return nil, fmt.Errorf("goredis: %T is neither a *redis.Client nor a *redis.ClusterClient, "+
		"and may send scripts twice: give one of these", c)
}

// again converts a timeout that a client reports, where 0 means none, to a timeout for the options
// of a client, where 0 means the default and -1 means none.
func again(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// A client implements [redis.Client] with go-redis.
type client struct {
	c        goredis.UniversalClient
	cluster  *goredis.ClusterClient // c if c is a cluster client, else nil
	renewals goredis.UniversalClient

	// calls runs the calls of go-redis, which never observes the cancellation of ctx, and observes
	// its deadline only if configured to.
	calls redis.Calls
}

// once is a command that go-redis must not send again: the first attempt may have run.
type once struct{ *goredis.Cmd }

// NoRetry disables the retries of go-redis.
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
	err := c.calls.Do(ctx, func() { _ = by.Process(ctx, cmd) })
	text := ""
	if err == nil {
		text, err = cmd.Text()
		err = wrap(err)
	}
	reload(ctx, by, err)
	return text, err
}

// reload makes a cluster client read the map of slots again after a call that a node did not
// answer: another node may have replaced it. By itself go-redis reads the map only before it sends
// a command again, which is disabled, and once a minute. RunWait does not follow MOVED, so MOVED is
// a reason too. go-redis reads the map in the background, one reload at a time, so many such calls
// cost no more than one.
func reload(ctx context.Context, by goredis.UniversalClient, err error) {
	cluster, ok := by.(*goredis.ClusterClient)
	if !ok || err == nil {
		return
	}
	var reply redis.ReplyError
	if !errors.As(err, &reply) || strings.HasPrefix(string(reply), "MOVED ") {
		cluster.ReloadState(ctx)
	}
}

// RunWait runs a script and WAIT on one connection.
func (c *client) RunWait(ctx context.Context, call redis.Call, replicas int, within time.Duration) (string, int, error) {
	key, cmd := call.Keys[0], command(ctx, call)
	wait := once{goredis.NewCmd(ctx, "WAIT", replicas, within.Milliseconds())}
	err := c.calls.Do(ctx, func() {
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
	reload(ctx, c.c, err)
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
	err := c.calls.Do(ctx, func() {
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
		reload(ctx, by, out[i].Err)
	}
	return out
}

// wrap converts an error of the server to a [redis.ReplyError], and one of a command that was not
// sent to a [driver.ErrUnavailable].
func wrap(err error) error {
	var reply goredis.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, goredis.ErrClosed), errors.Is(err, goredis.ErrPoolTimeout), errors.Is(err, goredis.ErrPoolExhausted):
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	case errors.As(err, &reply):
		return redis.ReplyError(reply.Error())
	}
	return err
}

// Each calls f for every primary.
func (c *client) Each(ctx context.Context, f func(redis.Node) error) error {
	if c.cluster == nil {
		return f(server{c.c, &c.calls})
	}
	var mu sync.Mutex
	var nodes []*goredis.Client
	var err error
	late := c.calls.Do(ctx, func() {
		err = c.cluster.ForEachMaster(ctx, func(_ context.Context, n *goredis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			nodes = append(nodes, n)
			return nil
		})
	})
	switch {
	case late != nil:
		return late
	case err != nil:
		return wrap(err)
	}
	for _, n := range nodes {
		if err := f(server{n, &c.calls}); err != nil {
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
	calls *redis.Calls
}

// Do sends a command.
func (s server) Do(ctx context.Context, args ...string) (any, error) {
	list := make([]any, len(args))
	for i, a := range args {
		list[i] = a
	}
	var cmd *goredis.Cmd
	if late := s.calls.Do(ctx, func() { cmd = s.c.Do(ctx, list...) }); late != nil {
		return nil, late
	}
	v, err := cmd.Result()
	return plain(v), wrap(err)
}

// plain converts a reply to strings, numbers and lists.
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

// Receive subscribes to a channel. go-redis renews a lost subscription by itself, and checks every
// few seconds whether the connection still answers.
func (c *client) Receive(
	ctx context.Context, channel string, sharded bool, up func(), news func(string),
) error {
	subscribe := c.c.Subscribe
	if sharded {
		subscribe = c.c.SSubscribe
	}
	sub := subscribe(ctx, channel)
	defer sub.Close()
	stop := context.AfterFunc(ctx, func() { sub.Close() }) // Receive does not observe ctx while it reads
	defer stop()
	if _, err := sub.Receive(ctx); err != nil { // the Go channel below reports no errors
		err = wrap(err)
		reload(ctx, c.c, err)
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
					return errMoved // the server unsubscribed, not this client
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

// Cluster reports whether the client is a cluster client.
func (c *client) Cluster() bool { return c.cluster != nil }

// Close closes the connections for renewals, and waits for the calls that were abandoned.
func (c *client) Close() error {
	c.calls.Close()
	err := c.renewals.Close()
	c.calls.Wait()
	return err
}
