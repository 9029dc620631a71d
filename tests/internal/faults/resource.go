package faults

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver of PostgreSQL
	"github.com/redis/rueidis"
	_ "modernc.org/sqlite" // the driver of SQLite

	"github.com/distlock/distlock/fence"
	"github.com/distlock/distlock/fence/redisfence"
	"github.com/distlock/distlock/fence/redisfence/rueidisfence"
)

// A resource is protected by locks: it has two counters per key, one that compares fences and one
// that accepts everything. After [fence.ErrStale] nothing was changed; after any other error that
// is unknown.
type resource interface {
	// read reads the fenced counter, and raises its fence: otherwise an older holder could write
	// between the read and the write of a newer one.
	read(ctx context.Context, l fence.Lease, key string) (uint64, error)
	write(ctx context.Context, l fence.Lease, key string, value uint64) error
	readPlain(ctx context.Context, key string) (uint64, error)
	writePlain(ctx context.Context, key string, value uint64) error
	close()
}

// openResource opens the resource of a URL.
func openResource(ctx context.Context, text string) (resource, error) {
	scheme, path, _ := strings.Cut(text, ":")
	switch scheme {
	case "redis":
		return openRedisResource(text)
	case "postgres":
		return openSQLResource(ctx, "pgx", text)
	case "sqlite":
		q := url.Values{"_txlock": {"immediate"}, "_pragma": {"busy_timeout(5000)", "journal_mode(wal)", "synchronous(normal)"}}
		return openSQLResource(ctx, "sqlite", "file:"+path+"?"+q.Encode())
	}
	return nil, fmt.Errorf("faults: no resource is called %s", scheme)
}

type redisResource struct {
	client rueidis.Client
	guard  *redisfence.Guard
}

func openRedisResource(text string) (resource, error) {
	opt, err := rueidis.ParseURL(text)
	if err != nil {
		return nil, err
	}
	opt.DisableCache, opt.DisableRetry = true, true
	c, err := rueidis.NewClient(opt)
	if err != nil {
		return nil, err
	}
	g, err := redisfence.New(rueidisfence.New(c), nil)
	if err != nil {
		c.Close()
		return nil, err
	}
	return &redisResource{c, g}, nil
}

func (r *redisResource) read(ctx context.Context, l fence.Lease, key string) (uint64, error) {
	v, err := r.guard.Do(ctx, l, "fenced/"+key, "GET")
	if err != nil || v == nil {
		return 0, err
	}
	text, _ := v.(string)
	return strconv.ParseUint(text, 10, 64)
}

func (r *redisResource) write(ctx context.Context, l fence.Lease, key string, value uint64) error {
	return r.guard.Set(ctx, l, "fenced/"+key, strconv.FormatUint(value, 10))
}

func (r *redisResource) readPlain(ctx context.Context, key string) (uint64, error) {
	n, err := r.client.Do(ctx, r.client.B().Get().Key("plain/"+key).Build()).AsUint64()
	if rueidis.IsRedisNil(err) {
		return 0, nil
	}
	return n, err
}

func (r *redisResource) writePlain(ctx context.Context, key string, value uint64) error {
	return r.client.Do(ctx, r.client.B().Set().Key("plain/"+key).Value(strconv.FormatUint(value, 10)).Build()).Error()
}

func (r *redisResource) close() { r.client.Close() }

type sqlResource struct {
	db  *sql.DB
	row fence.Row
}

func openSQLResource(ctx context.Context, driver, name string) (resource, error) {
	db, err := sql.Open(driver, name)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(4)
	// Several processes create the tables at once: one of them may find that another was faster.
	for range 10 {
		_, err = db.ExecContext(ctx, `create table if not exists counter (id text primary key, fence bigint not null default 0,
			fenced bigint not null default 0, plain bigint not null default 0)`)
		if err == nil {
			return &sqlResource{db: db, row: fence.Row{Table: "counter"}}, nil
		}
	}
	return nil, errors.Join(err, db.Close())
}

// see inserts the row if it is missing.
func (r *sqlResource) see(ctx context.Context, key string) error {
	_, err := r.db.ExecContext(ctx, "insert into counter (id) values ($1) on conflict do nothing", key)
	return err
}

func (r *sqlResource) read(ctx context.Context, l fence.Lease, key string) (n uint64, err error) {
	if err = r.row.Update(ctx, r.db, l, key, ""); errors.Is(err, sql.ErrNoRows) {
		if err = r.see(ctx, key); err == nil {
			err = r.row.Update(ctx, r.db, l, key, "")
		}
	}
	if err != nil {
		return 0, err
	}
	err = r.db.QueryRowContext(ctx, "select fenced from counter where id = $1", key).Scan(&n)
	return n, err
}

func (r *sqlResource) write(ctx context.Context, l fence.Lease, key string, value uint64) error {
	return r.row.Update(ctx, r.db, l, key, "fenced = $1", int64(value))
}

func (r *sqlResource) readPlain(ctx context.Context, key string) (n uint64, err error) {
	err = r.db.QueryRowContext(ctx, "select plain from counter where id = $1", key).Scan(&n)
	return n, err
}

func (r *sqlResource) writePlain(ctx context.Context, key string, value uint64) error {
	_, err := r.db.ExecContext(ctx, "update counter set plain = $1 where id = $2", int64(value), key)
	return err
}

func (r *sqlResource) close() { _ = r.db.Close() }
