package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/mysql"
)

// Stores that create the tables at the same moment do not disturb each other. Newer tables are
// refused.
func TestMigrate(t *testing.T) {
	t.Parallel()
	url := testenv.MariaDB(t, testenv.Shared()).Database(t)
	manual := made(t, url, &mysql.Options{Manual: true})
	var missing *mysql.SchemaError
	if _, err := manual.Acquire(t.Context(), exclusive("k")); !errors.As(err, &missing) || missing.Have != "" || !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("without tables: %v", err)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			s := made(t, url, nil)
			if res, err := s.Acquire(t.Context(), exclusive(fmt.Sprint("k", i))); err != nil || !res.Granted {
				t.Errorf("%v, %v", res.Granted, err)
			}
		})
	}
	wg.Wait()
	if from, to, err := manual.Migrate(t.Context()); from != "1.1" || to != "1.1" || err != nil {
		t.Error(from, to, err)
	}
	grant(t, manual, exclusive("k"))
	db := database(t, url)
	for _, v := range []string{"UPDATE distlock_meta SET value = '0' WHERE name = 'procedures'", "UPDATE distlock_meta SET value = '2' WHERE name = 'version'"} {
		if _, err := db.Exec(v); err != nil {
			t.Fatal(err)
		}
		var other *mysql.SchemaError
		if _, err := made(t, url, nil).Acquire(t.Context(), exclusive("x")); !errors.As(err, &other) {
			t.Errorf("%s: %v, want a SchemaError", v, err)
		}
	}
	if _, _, err := manual.Migrate(t.Context()); err == nil {
		t.Error("newer tables were migrated")
	}
}

// Inspect reports the settings that endanger locks.
func TestInspect(t *testing.T) {
	t.Parallel()
	srv := testenv.MariaDB(t, testenv.Config("log_bin = bin", "binlog_format = STATEMENT", "innodb_flush_log_at_trx_commit = 0", "read_only = OFF"))
	s := made(t, srv.URL, nil)
	_, _ = s.Acquire(t.Context(), exclusive("k"))
	text := func() string {
		info, err := s.Inspect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(info.Version, "MariaDB ") || info.Identity == "" || info.Age <= 0 {
			t.Errorf("%+v", info)
		}
		var b strings.Builder
		for _, f := range info.Findings {
			fmt.Fprintf(&b, "%v: %s\n", f.Level, f.What)
		}
		return b.String()
	}
	found := text()
	for _, want := range []string{
		"warning: commits are answered before they are on disk (innodb_flush_log_at_trx_commit is 0)", "warning: the binary log is on",
		"danger: the binary log has statements only", "ok: the tables are in InnoDB", "ok: the tables have version 1.1",
		"ok: the server is MariaDB", "ok: this server accepts writes", "ok: its clock and ours", "ok: this is no node of a Galera cluster",
	} {
		if !strings.Contains(found, want) {
			t.Errorf("%q is missing in\n%s", want, found)
		}
	}
	db := database(t, srv.URL)
	for _, set := range []string{"SET GLOBAL read_only = ON", "ALTER TABLE distlock_queue ENGINE = MyISAM"} {
		if _, err := db.Exec(set); err != nil {
			t.Fatal(err)
		}
	}
	if found = text(); !strings.Contains(found, "danger: this server is read-only") || !strings.Contains(found, "danger: the tables are in ") {
		t.Error(found)
	}
}

// While another process migrates, a call that waits for it ends with its context.
func TestStore_check_ends(t *testing.T) {
	t.Parallel()
	url := testenv.MariaDB(t, testenv.Shared()).Database(t)
	db := database(t, url)
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.ExecContext(t.Context(), "DO GET_LOCK(CONCAT('distlock ', LEFT(SHA2(DATABASE(), 256), 32)), 10)"); err != nil {
		t.Fatal(err)
	}
	s := made(t, url, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	first := make(chan struct{})
	go func() {
		defer close(first)
		_, _ = s.Acquire(ctx, exclusive("first")) // waits for the lock
	}()
	defer func() { <-first }()
	defer cancel()
	for end := time.Now().Add(10 * time.Second); value(t, db, "SELECT COUNT(*) FROM information_schema.PROCESSLIST"+
		" WHERE DB = DATABASE() AND INFO LIKE 'SELECT GET_LOCK%'") == "0"; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the first call does not wait")
		}
	}
	short, end := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer end()
	watch := testenv.NewStopwatch(t)
	if _, err := s.Acquire(short, exclusive("second")); err == nil {
		t.Error("Acquire returned before the tables were checked")
	}
	if took := watch.Elapsed(); took > 2*time.Second {
		t.Errorf("a call with a limit of 200 ms took %v", took)
	}
}
