package testenv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"testing"

	"go.uber.org/goleak"
)

// IgnoreRueidis ignores the goroutines that a rueidis client of a cluster leaves behind. They end
// by themselves:
//
//	goleak.VerifyTestMain(testenv.Main(m, nil), testenv.IgnoreRueidis()...)
func IgnoreRueidis() []goleak.Option {
	return []goleak.Option{
		// A command that fails schedules a refresh of the slots at a random time within the next
		// second. Close does not cancel it, and goleak waits for less than half a second.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		// A refresh closes old connections after 5 s, even if the client was closed in the
		// meantime.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
	}
}

const slots = 16384

// A Cluster is a Redis Cluster.
type Cluster struct {
	Nodes []*RedisServer // first the primaries of the start, then their replicas
}

// RedisCluster starts a Redis Cluster with 3 primaries and 1 replica of each, and returns when all
// slots are served and all replicas have their data. A replica replaces a node that is gone for 1
// s. RestartEmpty makes a node forget the cluster.
func RedisCluster(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	o := collect(t, "RedisCluster", opts, "Config", "AOF", "DebugCommand", "Password", "Primaries", "Replicas")
	if o.primaries < 1 || o.replicas < 0 {
		t.Fatal("testenv: a cluster has primaries")
	}
	c := &Cluster{}
	own(t, func(g *group) error {
		c.Nodes = nil
		return c.start(g, o)
	})
	return c
}

func (c *Cluster) start(g *group, o settings) error {
	o.lines = append([]string{"cluster-enabled yes", "cluster-node-timeout 1000"}, o.lines...)
	for range o.primaries * (1 + o.replicas) {
		node, err := newRedis(g, o)
		if err != nil {
			return err
		}
		if err := node.spawn(true); err != nil {
			return err
		}
		c.Nodes = append(c.Nodes, node)
	}
	for _, node := range c.Nodes {
		if err := node.await(); err != nil {
			return err
		}
	}
	if err := c.join(o.primaries); err != nil {
		return err
	}
	return await("the cluster serves all slots", c.whole)
}

// join makes one cluster of the nodes: slots, epochs, introductions, replication.
func (c *Cluster) join(primaries int) error {
	ctx := context.Background()
	for i, node := range c.Nodes {
		// With different epochs from the start, the nodes need not resolve a conflict of epochs.
		cmds := [][]string{{"CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i + 1)}}
		if i < primaries {
			add := []string{"CLUSTER", "ADDSLOTS"}
			for slot := slots * i / primaries; slot < slots*(i+1)/primaries; slot++ {
				add = append(add, strconv.Itoa(slot))
			}
			cmds = append(cmds, add)
		}
		for _, other := range c.Nodes[:i] {
			host, port, _ := net.SplitHostPort(other.Addr)
			cmds = append(cmds, []string{"CLUSTER", "MEET", host, port})
		}
		for _, cmd := range cmds {
			if _, err := node.Do(ctx, cmd...); err != nil {
				return fmt.Errorf("%s %s: %w", cmd[0], cmd[1], err)
			}
		}
	}
	for i, replica := range c.Nodes[primaries:] {
		id, err := c.Nodes[i%primaries].Do(ctx, "CLUSTER", "MYID")
		if err != nil {
			return err
		}
		// The command fails until the replica has heard of its primary.
		if err := await("a replica joins", func(ctx context.Context) error {
			_, err := replica.Do(ctx, "CLUSTER", "REPLICATE", id.(string))
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// whole returns nil when every node knows all nodes and all slots, and replicas are up to date.
func (c *Cluster) whole(ctx context.Context) error {
	for _, node := range c.Nodes {
		v, err := node.Do(ctx, "CLUSTER", "INFO")
		if err != nil {
			return err
		}
		info := v.(string)
		for name, want := range map[string]string{
			"cluster_state":       "ok",
			"cluster_slots_ok":    strconv.Itoa(slots),
			"cluster_known_nodes": strconv.Itoa(len(c.Nodes)),
		} {
			if got := lineValue(info, name); got != want {
				return fmt.Errorf("%s: %s is %s, not %s", node.Addr, name, got, want)
			}
		}
		if node.Info(ctx, "role") == "slave" && node.Info(ctx, "master_link_status") != "up" {
			return fmt.Errorf("%s: not up to date with its primary", node.Addr)
		}
	}
	return nil
}

// Addrs returns the addresses of all nodes.
func (c *Cluster) Addrs() []string { return addrs(c.Nodes) }

// PrimaryOf returns the node that claims to serve the key, or an error if none does at the moment.
// After a failover the former primary may still claim it too.
func (c *Cluster) PrimaryOf(ctx context.Context, key string) (*RedisServer, error) {
	var errs []error
	for _, node := range c.Nodes {
		serves, err := node.serves(ctx, key)
		if serves {
			return node, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("no node serves the key: %w", errors.Join(errs...))
}

// serves reports whether the node is the primary of the key's slot. A replica and a node of other
// slots reply MOVED, and a node that is cut off replies CLUSTERDOWN.
func (r *RedisServer) serves(ctx context.Context, key string) (bool, error) {
	// Replicas redirect EXISTS too, unless the connection sent READONLY.
	_, err := r.probe(ctx, "EXISTS", key)
	return err == nil, err
}

func addrs(nodes []*RedisServer) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n.Addr
	}
	return out
}
