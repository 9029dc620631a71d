// Command payment runs two tills that pay one invoice under a Redlock of three Redis servers, which
// it starts. The first till is stopped between its last check of the lock and its write, for longer
// than the TTL. The second till pays meanwhile. When the first till continues, its write is too
// late: a table with a fencing token rejects it, and a table without one accepts it.
package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/examples/internal/process"
	"github.com/distlock/distlock/fence"
	"github.com/distlock/distlock/open"
)

const (
	ttl     = time.Second
	invoice = 42
)

func main() {
	log.SetFlags(0)
	run := start
	if len(os.Args) > 3 {
		run = func(ctx context.Context) error { return pay(ctx, os.Args[1], os.Args[2], os.Args[3]) }
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Second)
	defer cancel()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

// pay is a till. It pays the invoice under the lock, and prints each step.
func pay(ctx context.Context, url, file, me string) error {
	source, err := open.Open(ctx, url)
	if err != nil {
		return err
	}
	defer source.Close()
	locker, err := distlock.New(source.Store, distlock.TTL(ttl), distlock.Holder(me))
	if err != nil {
		return err
	}
	defer locker.Close(ctx)
	db, err := sql.Open("sqlite", file)
	if err != nil {
		return err
	}
	defer db.Close()
	lease, err := locker.Lock(ctx, fmt.Sprint("invoice/", invoice))
	if err != nil {
		return err
	}
	if lease.Ensure(ctx, ttl/2) != nil {
		return distlock.ErrLost
	}
	fmt.Println("checked") // the lock is held
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err // the till waits here, between the check and the write
	}
	// The row has a column for the fence: one statement checks and writes.
	err = fence.Row{Table: "guarded"}.Update(ctx, db, lease, invoice, "paid_by = $1, times = times + 1", me)
	// This table has no guard: nothing checks the fence.
	if _, err := db.ExecContext(ctx, "update unguarded set paid_by = $1, times = times + 1 where id = $2", me, invoice); err != nil {
		return err
	}
	switch {
	case errors.Is(err, fence.ErrStale):
		fmt.Println("rejected: somebody else has held the lock since")
	case err != nil:
		return err
	default:
		fmt.Println("paid")
	}
	_ = lease.Unlock(ctx) // ErrLost for the late till
	return nil
}

// write lets the till write, and returns the result.
func write(till *process.Process) (string, error) {
	if err := till.Send("go"); err != nil {
		return "", err
	}
	said, err := till.Line()
	return said, errors.Join(err, till.Wait())
}

// start starts the servers and the tills, and stops the first till at the worst moment.
func start(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "payment")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(ctx)
	nodes, err := startNodes(ctx, 3)
	defer func() {
		cancel() // ends the servers
		for _, n := range nodes {
			_ = n.cmd.Wait()
		}
	}()
	if err != nil {
		return err
	}
	url := "redlock://" + nodes[0].addr + "," + nodes[1].addr + "," + nodes[2].addr + "/0"
	file := filepath.Join(dir, "ledger.db")
	db, err := sql.Open("sqlite", file)
	if err != nil {
		return err
	}
	defer db.Close()
	for _, table := range []string{"guarded", "unguarded"} {
		if _, err := db.ExecContext(ctx, "create table "+table+" (id integer primary key, paid_by text, times int not null default 0, fence bigint not null default 0)"); err != nil {
			return err
		}
		if _, err := db.ExecContext(ctx, "insert into "+table+" (id) values ($1)", invoice); err != nil {
			return err
		}
	}
	if err := scene(ctx, url, file); err != nil {
		return err
	}
	for _, table := range []string{"guarded", "unguarded"} {
		var by string
		var times int
		if err := db.QueryRowContext(ctx, "select paid_by, times from "+table+" where id = $1", invoice).Scan(&by, &times); err != nil {
			return err
		}
		fmt.Printf("the %s table: paid %d time(s), last by %s\n", table, times, by)
	}
	return nil
}

// scene runs the two tills, and stops and resumes the first.
func scene(ctx context.Context, url, file string) error {
	first, err := process.Start(ctx, url, file, "till 1")
	if err != nil {
		return err
	}
	if _, err := first.Line(); err != nil {
		return err
	}
	fmt.Println("till 1 has the lock of the invoice, has checked it, and is about to write")
	if err := stop(first.Process); err != nil {
		return err
	}
	fmt.Println("till 1 is stopped: a long pause, a migrated host")
	second, err := process.Start(ctx, url, file, "till 2")
	if err != nil {
		return err
	}
	if _, err := second.Line(); err != nil { // when the lock of the first till has expired
		return err
	}
	said, err := write(second)
	if err != nil {
		return err
	}
	fmt.Println("till 2 has the lock, since that of till 1 has expired, and writes:", said)
	if err := resume(first.Process); err != nil {
		return err
	}
	if said, err = write(first); err != nil {
		return err
	}
	fmt.Println("till 1 continues where it was, and writes:", said)
	return nil
}

// A node is a Redis server.
type node struct {
	cmd  *exec.Cmd
	addr string
}

// startNodes starts independent servers that keep nothing on disk. They end with ctx.
func startNodes(ctx context.Context, n int) (nodes []node, err error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("this example starts Redis servers: install redis-server (%w)", err)
	}
	for range n {
		addr, err := freeAddr()
		if err != nil {
			return nodes, err
		}
		_, port, _ := net.SplitHostPort(addr)
		c := exec.CommandContext(ctx, program, "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--loglevel", "warning")
		if err := c.Start(); err != nil {
			return nodes, err
		}
		nodes = append(nodes, node{c, addr})
	}
	for _, n := range nodes {
		for {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", n.addr)
			if err == nil {
				conn.Close()
				break
			}
			if ctx.Err() != nil {
				return nodes, err
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	return nodes, nil
}

// freeAddr returns a free address.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
