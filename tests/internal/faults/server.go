package faults

import (
	"context"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/open"
	"github.com/distlock/distlock/server"
	"github.com/distlock/distlock/server/access"
)

// ServerRole is the role of [Serve] in a test binary.
const ServerRole = "lock server"

// Serve is a lock server in a process of its own: see [testenv.LockServer]. A signal ends it at
// once.
func Serve(args []string) int {
	if err := serve(args[0], args[1]); err != nil {
		fmt.Fprintln(os.Stderr, open.Redact(err.Error()))
		return 1
	}
	return 0
}

func serve(addr, url string) error {
	ctx := context.Background()
	src, err := open.Open(ctx, url)
	if err != nil {
		return err
	}
	defer src.Close()
	v, err := server.New(ctx, src.Store, &server.Options{Anonymous: access.Everything("test"), Audit: server.NewAudit(io.Discard)})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return v.HTTP().Serve(l)
}

func remoteURL(addrs []string) string { return "http://" + strings.Join(addrs, ",") }

// startRemote starts one lock server with a SQLite file.
func startRemote(e *Env) {
	e.Guard = "sqlite:" + filepath.Join(e.tb.TempDir(), "guarded.db")
	e.Nodes, e.URL = []*Node{{Server: testenv.LockServer(e.tb, ServerRole, "")}}, remoteURL
}

// startRemotePair starts two lock servers on one Redis server.
func startRemotePair(e *Env) {
	e.guardRedis()
	e.pair(testenv.Redis(e.tb, testenv.AOF()).URL)
}

// startRemotePairSQLite starts two lock servers on one SQLite file.
func startRemotePairSQLite(e *Env) {
	e.Guard = "sqlite:" + filepath.Join(e.tb.TempDir(), "guarded.db")
	e.pair("sqlite:" + filepath.Join(e.tb.TempDir(), "locks.db") + "?holders=remote")
}

// startRemotePairPostgres starts two lock servers on one PostgreSQL server.
func startRemotePairPostgres(e *Env) {
	p := testenv.Postgres(e.tb)
	e.Guard = p.Database(e.tb)
	e.pair(p.Database(e.tb))
}

// pair starts two lock servers on one store.
func (e *Env) pair(url string) {
	for range 2 {
		e.Nodes = append(e.Nodes, &Node{Server: testenv.LockServer(e.tb, ServerRole, url)})
	}
	e.URL = remoteURL
}

// startRemotePostgres starts one lock server on PostgreSQL.
func startRemotePostgres(e *Env) {
	p := testenv.Postgres(e.tb)
	e.Guard = p.Database(e.tb)
	e.Nodes, e.URL = []*Node{{Server: testenv.LockServer(e.tb, ServerRole, p.Database(e.tb))}}, remoteURL
}

// openRandom opens a store for each lock server, and sends each call to a random one.
func openRandom(ctx context.Context, url string, _ time.Duration) (driver.Store, func(), error) {
	var all Either
	var closes []func()
	shut := func() {
		for _, c := range closes {
			c()
		}
	}
	for addr := range strings.SplitSeq(strings.TrimPrefix(url, "http://"), ",") {
		src, err := open.Open(ctx, remoteURL([]string{addr}))
		if err != nil {
			shut()
			return nil, nil, err
		}
		all, closes = append(all, src.Store), append(closes, src.Close)
	}
	return all, shut, nil
}

// An Either is several stores on one backend. It makes each call, also those of one owner, on a
// random one.
type Either []driver.Store

func (e Either) any() driver.Store { return e[rand.IntN(len(e))] }

// Features returns the features of the first.
func (e Either) Features() driver.Features { return e[0].Features() }

// Acquire calls a random store.
func (e Either) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	return e.any().Acquire(ctx, r)
}

// Renew calls a random store.
func (e Either) Renew(ctx context.Context, r driver.Renewal) (int, error) {
	return e.any().Renew(ctx, r)
}

// RenewAll calls a random store.
func (e Either) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	return driver.RenewAll(ctx, e.any(), rs)
}

// Release calls a random store.
func (e Either) Release(ctx context.Context, id driver.ID) error { return e.any().Release(ctx, id) }

// Watch calls a random store.
func (e Either) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	return driver.Watch(ctx, e.any(), id)
}

// Show calls a random store.
func (e Either) Show(ctx context.Context, key string) ([]driver.Claim, error) {
	return driver.Show(ctx, e.any(), key)
}

// List calls a random store.
func (e Either) List(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error] {
	return driver.List(ctx, e.any(), prefix)
}

// Break calls a random store.
func (e Either) Break(ctx context.Context, key string, upTo uint64, reason string) ([]driver.Claim, error) {
	return driver.Break(ctx, e.any(), key, upTo, reason)
}

// Inspect calls a random store.
func (e Either) Inspect(ctx context.Context) (driver.Info, error) {
	return driver.Inspect(ctx, e.any())
}
