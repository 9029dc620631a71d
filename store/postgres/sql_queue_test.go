package postgres_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/postgres"
)

// An attempt without a queue entry does not overtake the queue, and the calls of docs/postgres.md
// keep an entry.
func TestSQL_queue(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	url := srv.Database(t)
	s := made(t, url, nil)
	works(t, s)
	doc, err := os.ReadFile("../../docs/postgres.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(doc), "```sql\n-- Try to acquire the lock, and")
	code, _, _ = strings.Cut("-- "+code, "```")
	calls := strings.Split(strings.TrimSpace(code), ";\n")
	if len(calls) != 3 {
		t.Fatalf("docs/postgres.md has %d calls for the queue, want 3", len(calls))
	}
	c, eval := plainSQL(t, url, &postgres.Options{Schema: "distlock"})
	says := func(call, want string) {
		t.Helper()
		rows, err := c.Query(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		got, err := pgx.CollectRows(rows, pgx.RowToMap)
		if err != nil || len(got) != 1 || !strings.Contains(fmt.Sprint(got[0]), want) {
			t.Errorf("%s: %v, %v; want %s", call, got, err, want)
		}
	}
	a := exclusive("nightly report")
	grant(t, s, a)
	says(calls[0], "answer:-")
	release(t, s, a)
	if ok, err := eval("select Schema.acquire_lock('nightly report', 'polls', 60)"); err != nil || ok {
		t.Errorf("acquire_lock past the queue: %v, %v; want false", ok, err)
	}
	refuse(t, s, exclusive("nightly report"))
	says(calls[0], "answer:=")
	says(calls[1], "answer:+")
	if left := refuse(t, s, exclusive("nightly report")).Blocker.Left; left < 20*time.Second {
		t.Errorf("%v are left, want 30 s", left)
	}
	says(calls[2], "release:true")
	if ok, err := eval("select Schema.acquire_lock('nightly report', 'polls', 60)"); err != nil || !ok {
		t.Errorf("acquire_lock with an empty queue: %v, %v; want true", ok, err)
	}
}
