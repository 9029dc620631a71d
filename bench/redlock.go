package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	client "github.com/redis/rueidis"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/quorum"
)

// redlock measures a majority of three and of five servers.
func (b *bench) redlock() error {
	var s stack
	defer s.undo()
	addrs, err := b.servers(5, s.push)
	if err != nil {
		return err
	}
	if b.addrs == nil {
		if err := establish(b.ctx, addrs); err != nil {
			return err
		}
	}
	for _, n := range []int{3, 5} {
		for _, workers := range []int{contenders, 1} {
			if err := b.majority(addrs[:n], workers); err != nil {
				return err
			}
		}
	}
	return nil
}

// establish makes new servers look as if they had been up for a day. In its first two minutes a
// deployment needs all its nodes for a grant; the bench measures the normal state after that.
func establish(ctx context.Context, addrs []string) error {
	var s stack
	defer s.undo()
	born := time.Now().Add(-24 * time.Hour).UnixMicro()
	for _, addr := range addrs {
		c, err := connect(addr, s.push)
		if err != nil {
			return err
		}
		info, err := c.Do(ctx, c.B().Info().Section("replication").Build()).ToString()
		if err != nil {
			return err
		}
		_, id, _ := strings.Cut(info, "master_replid:")
		id, _, _ = strings.Cut(id, "\r")
		mark := fmt.Sprintf("%s %d %s", rand.Text(), born, id)
		if err := c.Do(ctx, c.B().Set().Key("{lock:}:birth").Value(mark).Nx().Build()).Error(); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) majority(addrs []string, workers int) error {
	title := fmt.Sprintf("Redlock, %d nodes, free keys, %d goroutines", len(addrs), workers)
	if workers == 1 {
		title = fmt.Sprintf("Redlock, %d nodes, free key, 1 goroutine", len(addrs))
	}
	if !b.pick(title) {
		return nil
	}
	all := majorities()
	figures, costs, err := b.costs(title, addrs, workers, all)
	if err != nil {
		return err
	}
	t := table{Title: title, Columns: []column{
		perSecond, ratio, p50, {"p50 ratio", "x"}, worst, {"failed", ""}, clientCPU, serverCPU,
	}}
	for i, f := range figures {
		client, server := typical(costs[i])
		t.Rows = append(t.Rows, row{all[i].name, []float64{
			f.Rate, f.Rate / figures[0].Rate, f.P50.Seconds(), f.P50.Seconds() / figures[0].P50.Seconds(), f.Worst.Seconds(), f.Failed,
			client, server,
		}})
	}
	ours := figures[majorityOurs]
	t.Goals = []goal{
		atMost("p50, times that of redsync with fail-fast", ours.P50.Seconds()/figures[majorityFast].P50.Seconds(), noise),
		atMost("p50, times the bare one", ours.P50.Seconds()/figures[majorityRaw].P50.Seconds(), 1.15),
	}
	if workers > 1 {
		t.Goals = []goal{
			atLeast("rate, times the bare one with the same data", figures[majorityOurs].Rate/figures[majoritySame].Rate, 0.85),
			atLeast("rate, times the bare one", figures[majorityOurs].Rate/figures[majorityRaw].Rate, 0.85),
		}
	}
	b.report(t)
	return nil
}

// A cost is the CPU time of one pair in seconds. Where client and servers share the cores, it
// decides the rate, and other work on the machine changes it little.
type cost struct{ client, servers float64 }

var clientCPU, serverCPU = column{"client CPU", "s"}, column{"server CPU", "s"}

// typical returns the medians of costs.
func typical(all []cost) (client, servers float64) {
	return median(all, func(c cost) float64 { return c.client }), median(all, func(c cost) float64 { return c.servers })
}

// costs runs all ways alternately, and returns their medians, and the cost of each round.
func (b *bench) costs(title string, addrs []string, workers int, all []majorityWay) ([]figure, [][]cost, error) {
	var s stack
	defer s.undo()
	var servers []client.Client
	for _, addr := range addrs {
		c, err := connect(addr, s.push)
		if err != nil {
			return nil, nil, err
		}
		servers = append(servers, c)
	}
	deeds := make([]deed, len(all))
	for i, m := range all {
		do, err := m.open(b.ctx, addrs, s.push)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", m.name, err)
		}
		deeds[i] = spread(do, m.name, workers)
	}
	costs := make([][]cost, len(all))
	figures, err := b.rotate(title, len(all), func(i int) (figure, error) {
		d := b.each
		if b.round == 0 {
			d /= 5 // connections are made, scripts are loaded
		}
		client, server := processTime(), sumOf(b.ctx, servers, serverTime)
		runs, took, err := run(b.ctx, deeds[i], workers, d)
		if err != nil {
			return figure{}, fmt.Errorf("%s: %w", all[i].name, err)
		}
		f, err := sum(runs, took)
		pairs := f.Rate * took.Seconds()
		if b.round > 0 {
			costs[i] = append(costs[i], cost{
				(processTime() - client).Seconds() / pairs, (sumOf(b.ctx, servers, serverTime) - server) / pairs,
			})
		}
		return f, err
	})
	return figures, costs, err
}

func sumOf(ctx context.Context, servers []client.Client, of func(context.Context, client.Client) float64) (n float64) {
	for _, c := range servers {
		n += of(ctx, c)
	}
	return n
}

// A majorityWay is a pair on several servers.
type majorityWay struct {
	name string
	open func(ctx context.Context, addrs []string, later func(func())) (pair, error)
}

// The indexes of the ways.
const (
	majorityRaw = iota
	majoritySame
	majorityOurs
	majorityAll // redsync waits for all servers
	majorityFast
)

func majorities() []majorityWay {
	return []majorityWay{
		{"raw: SET NX PX in parallel, a majority", rawMajority(rawTake)},
		{"raw with distlock's data and fence", rawMajority(rawTakeWithData)},
		{"distlock", func(ctx context.Context, addrs []string, later func(func())) (pair, error) {
			var nodes []driver.Store
			for _, addr := range addrs {
				s, err := openStore(addr, later)
				if err != nil {
					return nil, err
				}
				nodes = append(nodes, s)
			}
			q, err := quorum.New(ctx, nodes, nil)
			if err != nil {
				return nil, err
			}
			later(q.Close)
			l, err := newDistlock(q, later)
			if err != nil {
				return nil, err
			}
			do := pairOf(l)
			return func(ctx context.Context, key string) error {
				err := do(ctx, key)
				if errors.As(err, new(*quorum.VoteError)) { // no majority answered in time: the machine is busy
					return fmt.Errorf("%w: %w", errFailed, err)
				}
				return err
			}, nil
		}},
		{"redsync", func(_ context.Context, addrs []string, later func(func())) (pair, error) {
			return pairOf(newRedsync(addrs, 0, later)), nil
		}},
		{"redsync with fail-fast", func(_ context.Context, addrs []string, later func(func())) (pair, error) {
			r := newRedsync(addrs, 0, later)
			r.opts = append(r.opts, redsync.WithFailFast(true))
			return pairOf(r), nil
		}},
	}
}

func rawTake(ctx context.Context, c client.Client, key, owner string) error {
	return c.Do(ctx, c.B().Set().Key(key).Value(owner).Nx().PxMilliseconds(ttl.Milliseconds()).Build()).Error()
}

func rawTakeWithData(ctx context.Context, c client.Client, key, owner string) error {
	fence, err := rawSame.Exec(ctx, c, []string{key, "{" + key + "}:c"}, []string{owner, millis, who}).ToString()
	if err == nil && fence == "" {
		err = errTaken
	}
	return err
}

// rawMajority acquires a key on all servers in parallel and continues when a majority has granted
// it, and releases it in the same way. A server gets the release after it has answered, so that
// nothing is left behind.
func rawMajority(take func(ctx context.Context, c client.Client, key, owner string) error) func(context.Context, []string, func(func())) (pair, error) {
	return func(_ context.Context, addrs []string, later func(func())) (pair, error) {
		var nodes []client.Client
		for _, addr := range addrs {
			c, err := connect(addr, later)
			if err != nil {
				return nil, err
			}
			nodes = append(nodes, c)
		}
		return func(ctx context.Context, key string) error {
			ctx = context.WithoutCancel(ctx)
			owner := rand.Text()
			took, dropped, leave := make(chan error, len(nodes)), make(chan error, len(nodes)), make(chan struct{})
			for _, c := range nodes {
				go func() {
					err := take(ctx, c, key, owner)
					took <- err
					<-leave
					if err == nil {
						err = drop(ctx, c, key, owner)
					}
					dropped <- err
				}()
			}
			err := most(took, len(nodes))
			close(leave)
			return errors.Join(err, most(dropped, len(nodes)))
		}, nil
	}
}

// most returns when a majority of n has succeeded, or can no longer succeed.
func most(answers chan error, n int) error {
	good, bad := 0, 0
	var last error
	for good <= n/2 && bad <= n/2 {
		if err := <-answers; err != nil {
			last = err
			bad++
		} else {
			good++
		}
	}
	if good > n/2 {
		return nil
	}
	return last
}
