// Package rueidisstore makes a [redis.Store] from a rueidis client or from a URL.
//
// Rueidis sends the commands of all goroutines over one connection to a server. So renewals never
// wait for a connection that acquires have taken, and many calls share a system call.
package rueidisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/redis"
)

// Options are the options of the store: see [redis.Options].
type Options = redis.Options

// errClosed says that a call was not sent.
var errClosed = fmt.Errorf("%w: the store is closed", driver.ErrUnavailable)

// errMoved says that the server ended a subscription because the slot of the channel moved to
// another node.
var errMoved = errors.New("rueidis: the channel has moved to another node")

// New returns a store on a client for a single server, Sentinel or a cluster. The client stays the
// caller's: close the store first, then the client.
//
// New sends each script once, regardless of the client's options for retries: rueidis sends only
// commands again that read. Scripts share a connection even if the client's DisableAutoPipelining
// is set.
//
// A grant that waits for replicas takes a connection of the client's BlockingPoolSize for that
// time. Notifications for waiters take another: one per process, or on a cluster one for each key
// that has waiters. To a single server, calls that follow each other closely take up to three more.
func New(c rueidis.Client, opt *Options) (*redis.Store, error) {
	if c == nil {
		return nil, errors.New("rueidis: the client is nil")
	}
	return redis.New(newClient(c), opt)
}

// A client implements [redis.Client] with rueidis.
type client struct {
	c       rueidis.Client
	cluster bool
	closes  bool        // Close closes c
	batcher batcher     // not used on a cluster
	suspect atomic.Bool // the last call got no answer: rueidis may have to connect
	closed  atomic.Bool

	// calls runs the calls of rueidis, which does not observe ctx while it connects or waits for a
	// connection of its pool.
	calls redis.Calls
}

func newClient(c rueidis.Client) *client {
	n := &client{c: c, cluster: c.Mode() == rueidis.ClientModeCluster}
	n.batcher.init(c)
	return n
}

// Run runs a script. A renewal bypasses the batcher and so waits for no other call. So does every
// call on a cluster: a batch would wait for the slowest node.
func (c *client) Run(ctx context.Context, call redis.Call) (string, error) {
	if !c.cluster && !call.Renewal {
		r := c.batcher.send(ctx, c.command(c.c.B(), call), call.Merge)
		if r.merged {
			return r.text, nil
		}
		return answer(r.res)
	}
	cmd := c.command(c.c.B(), call)
	if !c.suspect.Load() {
		return c.run(ctx, cmd)
	}
	var text string
	var err error
	if late := c.calls.Do(ctx, func() { text, err = c.run(ctx, cmd) }); late != nil {
		return "", late
	}
	return text, err
}

func (c *client) run(ctx context.Context, cmd rueidis.Completed) (string, error) {
	if c.closed.Load() {
		return "", errClosed
	}
	text, err := answer(c.c.Do(ctx, cmd))
	if failed := err != nil && !errors.As(err, new(redis.ReplyError)); failed != c.suspect.Load() {
		c.suspect.Store(failed)
	}
	return text, err
}

// RunWait runs a script and WAIT on a connection of its own, since WAIT blocks the commands behind
// it.
func (c *client) RunWait(ctx context.Context, call redis.Call, replicas int, within time.Duration) (string, int, error) {
	cmd := c.command(c.c.B(), call)
	wait := c.c.B().Wait().Numreplicas(int64(replicas)).Timeout(within.Milliseconds()).Build()
	var text string
	var have int64
	var err error
	late := c.calls.Do(ctx, func() {
		err = c.c.Dedicated(func(d rueidis.DedicatedClient) (err error) {
			if text, err = answer(d.Do(ctx, cmd)); err != nil { // rueidis sends nothing if ctx has ended
				return err
			}
			have, err = d.Do(ctx, wait).AsInt64()
			return wrap(err)
		})
	})
	if late != nil {
		return "", 0, late
	}
	return text, int(have), err
}

// RunAll runs many scripts.
func (c *client) RunAll(ctx context.Context, calls []redis.Call) []redis.Answer {
	cmds := make(rueidis.Commands, len(calls))
	for i, call := range calls {
		cmds[i] = c.command(c.c.B(), call)
	}
	out := make([]redis.Answer, len(calls))
	var all []rueidis.RedisResult
	late := c.calls.Do(ctx, func() { all = c.c.DoMulti(ctx, cmds...) })
	for i := range out {
		if out[i].Err = late; late == nil {
			out[i].Text, out[i].Err = answer(all[i])
		}
	}
	return out
}

// command converts a call. ToPipe selects the connection that all goroutines share, even if the
// client is configured to take one of a pool for each. Outside a cluster, command does not mark
// which arguments are keys: then rueidis sends all calls over one connection, where a release
// cannot overtake the acquire that it undoes.
func (c *client) command(b rueidis.Builder, call redis.Call) rueidis.Completed {
	cmd := b.Arbitrary(call.Verb, call.Script, strconv.Itoa(len(call.Keys)))
	if c.cluster {
		cmd = cmd.Keys(call.Keys...)
	} else {
		cmd = cmd.Args(call.Keys...)
	}
	return cmd.Args(call.Args...).Build().ToPipe()
}

func answer(res rueidis.RedisResult) (string, error) {
	text, err := res.ToString()
	if err != nil {
		return "", wrap(err) // ToString returns the text of the error too
	}
	return text, nil
}

// wrap converts an error of the server to a [redis.ReplyError], and one of a command that was not
// sent to a [driver.ErrUnavailable]. rueidis.ErrClosing stays as it is: rueidis closes the
// connection to a primary that was replaced, with commands that were sent and not answered yet.
func wrap(err error) error {
	if err == nil {
		return nil
	}
	if reply, ok := rueidis.IsRedisErr(err); ok {
		return redis.ReplyError(reply.Error())
	}
	if errors.Is(err, rueidis.ErrNoSlot) {
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	return err
}

// Each calls f for every primary.
func (c *client) Each(ctx context.Context, f func(redis.Node) error) error {
	nodes := c.c.Nodes()
	if c.c.Mode() != rueidis.ClientModeCluster {
		return f(server{c.c, &c.calls})
	}
	for _, n := range nodes {
		role, err := server{n, &c.calls}.Do(ctx, "ROLE")
		if err != nil {
			return err
		}
		if parts, _ := role.([]any); len(parts) > 0 && parts[0] != "master" {
			continue
		}
		if err := f(server{n, &c.calls}); err != nil {
			return err
		}
	}
	return nil
}

// A server is one node.
type server struct {
	c     rueidis.Client
	calls *redis.Calls
}

// Do sends a command.
func (s server) Do(ctx context.Context, args ...string) (any, error) {
	var res rueidis.RedisResult
	late := s.calls.Do(ctx, func() { res = s.c.Do(ctx, s.c.B().Arbitrary(args...).Build()) })
	if late != nil {
		return nil, late
	}
	msg, err := res.ToMessage()
	if err != nil {
		return nil, wrap(err)
	}
	return plain(msg), nil
}

// plain converts a reply to strings, numbers and lists.
func plain(m rueidis.RedisMessage) any {
	switch {
	case m.IsNil():
		return nil
	case m.IsInt64():
		n, _ := m.AsInt64()
		return n
	case m.IsArray():
		ms, _ := m.ToArray()
		out := make([]any, len(ms))
		for i, one := range ms {
			out[i] = plain(one)
		}
		return out
	case m.IsMap():
		ms, _ := m.ToMap()
		var out []any
		for k, v := range ms {
			out = append(out, k, plain(v))
		}
		return out
	default:
		s, _ := m.ToString()
		return s
	}
}

// Receive subscribes to a channel on a connection of its own. The goroutine that reads this
// connection calls the hooks itself. While few calls are in flight on the other connections, each
// call is written and read by its caller.
func (c *client) Receive(ctx context.Context, channel string, sharded bool, up func(), news func(string)) error {
	var err error
	if late := c.calls.Do(ctx, func() { err = c.receive(ctx, channel, sharded, up, news) }); late != nil {
		return late
	}
	return err
}

func (c *client) receive(ctx context.Context, channel string, sharded bool, up func(), news func(string)) error {
	d, release := c.c.Dedicate()
	defer release()
	defer d.Close()
	moved := make(chan struct{}, 1)
	ended := d.SetPubSubHooks(rueidis.PubSubHooks{
		OnSubscription: func(s rueidis.PubSubSubscription) {
			switch {
			case s.Channel != channel:
			case s.Kind == "subscribe" || s.Kind == "ssubscribe":
				up()
			case s.Kind == "sunsubscribe": // the server unsubscribed, not this client
				select {
				case moved <- struct{}{}:
				default: // already noted
				}
			}
		},
		OnMessage: func(m rueidis.PubSubMessage) {
			if m.Channel == channel {
				news(m.Message)
			}
		},
	})
	cmd := d.B().Subscribe().Channel(channel).Build()
	if sharded {
		cmd = d.B().Ssubscribe().Channel(channel).Build()
	}
	if err := d.Do(ctx, cmd).Error(); err != nil {
		return wrap(err)
	}
	select {
	case err := <-ended:
		return wrap(err)
	case <-moved:
		return errMoved
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Cluster reports whether the client is a cluster client.
func (c *client) Cluster() bool { return c.c.Mode() == rueidis.ClientModeCluster }

// Close closes the client if Open made it, and then waits for the calls that were abandoned.
func (c *client) Close() error {
	c.closed.Store(true)
	c.calls.Close()
	if c.closes {
		c.c.Close()
		c.batcher.abort()
	}
	c.calls.Wait()
	c.batcher.close()
	return nil
}
