package faults

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/distlock/distlock/internal/testenv"
)

// startReplicated starts a primary and a replica. Clients reach them by an address that moves with
// a failover.
func startReplicated(e *Env) {
	e.guardRedis()
	primary := testenv.Redis(e.tb)
	replica := testenv.Redis(e.tb, testenv.ReplicaOf(primary))
	e.replicas = []*testenv.RedisServer{primary, replica} // the first is in front
	e.Nodes, e.URL = []*Node{redisNode(primary), redisNode(replica)}, redisURL
}

// promote kills the primary, makes its replica the primary, and moves the routes to it. Data that
// the replica had not received yet is lost.
func (e *Env) promote() error {
	e.replicas[0].Kill()
	if _, err := e.replicas[1].Do(context.Background(), "REPLICAOF", "NO", "ONE"); err != nil {
		return err
	}
	slices.Reverse(e.replicas)
	slices.Reverse(e.Nodes)
	for _, w := range e.routes {
		for _, p := range w.proxies {
			p.Retarget(e.replicas[0].Addr)
		}
	}
	return nil
}

// reinstate starts the old primary as the replica of the new one, and waits until it has its data.
func (e *Env) reinstate() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	old, host, port := e.replicas[1], "", ""
	old.RestartEmpty()
	host, port, err := net.SplitHostPort(e.replicas[0].Addr)
	if err != nil {
		return err
	}
	if _, err := old.Do(ctx, "REPLICAOF", host, port); err != nil {
		return err
	}
	for old.Info(ctx, "master_link_status") != "up" {
		if ctx.Err() != nil {
			return fmt.Errorf("the old primary does not follow the new one: %w", ctx.Err())
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}
