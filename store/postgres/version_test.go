package postgres_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/postgres"
)

// Functions of an older program are refused. Migrate replaces them, also if ten processes call it
// at once. Claims stay.
func TestSchema_oldFunctions(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	a := exclusive("held")
	fence := grant(t, s, a).Fence
	for _, sql := range []string{
		"delete from Schema.meta where name = 'functions'", "drop function Schema.attempt_all",
		"drop function Schema.attempt_anywhere", "drop function Schema.release_all(text[], text[], boolean[])",
		"create or replace function Schema.tag(owner text) returns text language sql as 'select null::text'",
	} {
		query(t, srv, strings.ReplaceAll(sql, "Schema", quoted(opt)))
	}
	old := made(t, srv.URL, opt)
	_, err := old.Acquire(t.Context(), exclusive("key"))
	var schema *postgres.SchemaError
	if !errors.As(err, &schema) || schema.Functions != 1 || schema.Have != schema.Want ||
		!errors.Is(err, driver.ErrUnavailable) ||
		!strings.Contains(err.Error(), "distlock migrate") {
		t.Fatalf("with old functions: %v, want a SchemaError with the cure", err)
	}
	var wg sync.WaitGroup
	var replaced atomic.Int32
	for range 10 {
		wg.Go(func() {
			from, to, err := made(t, srv.URL, opt).Migrate(t.Context())
			if from == "3.1" {
				replaced.Add(1)
			} else if from != to || err != nil {
				t.Errorf("Migrate: %s, %s, %v", from, to, err)
			}
		})
	}
	wg.Wait()
	if replaced.Load() != 1 {
		t.Errorf("%d say that they replaced the functions, want 1", replaced.Load())
	}
	if again := grant(t, old, a); again.Fence != fence {
		t.Errorf("fence %d after Migrate, want %d", again.Fence, fence)
	}
	works(t, old)
	if rows := query(t, srv, "select owner from "+quoted(opt)+".locks"); len(rows) != 1 ||
		rows[0][0] != driver.Tag(a.Owner) {
		t.Errorf("the locks are %v: not all functions were replaced", rows)
	}

	// Migrate replaces functions that are too old for this program, and keeps newer ones.
	for have, want := range map[string]string{"2": "14", "9": "14", "99": "99"} {
		query(t, srv, "update "+quoted(opt)+".meta set value = '"+have+"' where name = 'functions'")
		if _, err := made(t, srv.URL, opt).Acquire(t.Context(), exclusive("key")); errors.As(err, &schema) != (want != have) {
			t.Errorf("with functions no. %s: %v", have, err)
		}
		if _, _, err := made(t, srv.URL, opt).Migrate(t.Context()); err != nil {
			t.Error(err)
		}
		if rows := query(t, srv, "select value from "+quoted(opt)+".meta where name = 'functions'"); rows[0][0] != want {
			t.Errorf("Migrate made functions no. %v of no. %s, want %s", rows, have, want)
		}
		works(t, made(t, srv.URL, opt))
	}
}

// Changed functions need another number, so that programs can check whether a schema has them.
func TestSchema_functionsNumber(t *testing.T) {
	t.Parallel()
	const of = "d20286a14859aa49" // the hash of functions = 14
	text, err := os.ReadFile("sql/functions.sql")
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(text); hex.EncodeToString(sum[:8]) != of {
		t.Errorf("sql/functions.sql has changed: raise the number functions in schema.go, and note %x here", sum[:8])
	}
}

// A server that is too old is refused by its version, not by the first statement that it does not
// know.
func TestOpen_oldServer(t *testing.T) {
	t.Parallel()
	for version, ok := range map[int]bool{130021: false, 90624: false, 140000: true} {
		url := "postgres://app@" + oldServer(t, version) + "/app?sslmode=disable"
		s, err := postgres.Open(t.Context(), url)
		if err == nil {
			s.Close()
		}
		refused := errors.Is(err, errors.ErrUnsupported) && errors.Is(err, driver.ErrUnavailable) &&
			strings.Contains(err.Error(), "14 is the first")
		if refused == ok {
			t.Errorf("Open on version %d: %v", version, err)
		}
		if _, _, err := made(t, url, nil).Migrate(t.Context()); errors.Is(err, errors.ErrUnsupported) == ok {
			t.Errorf("Migrate on version %d: %v", version, err)
		}
	}
}

// A real server that is too old is refused. scripts/matrix runs this with PostgreSQL 13.
func TestStore_oldServer(t *testing.T) {
	srv := testenv.Postgres(t)
	version := query(t, srv, "show server_version_num")[0][0]
	if version >= "140000" {
		t.Skip("the server is not too old: scripts/matrix postgres-13 has one")
	}
	_, err := made(t, srv.URL, nil).Acquire(t.Context(), exclusive("key"))
	if !errors.Is(err, errors.ErrUnsupported) ||
		!strings.Contains(err.Error(), "the server is PostgreSQL "+version[:2]) {
		t.Errorf("on version %s: %v", version, err)
	}
}

// oldServer answers the query for the process and the version as a PostgreSQL of this version, and
// refuses everything else.
func oldServer(t *testing.T, version int) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				serveOld(pgproto3.NewBackend(c, c), version)
			})
		}
	})
	return l.Addr().String()
}

func serveOld(b *pgproto3.Backend, version int) {
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	ready := &pgproto3.ReadyForQuery{TxStatus: 'I'}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	b.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}})
	b.Send(ready)
	refused := false
	for b.Flush() == nil {
		m, err := b.Receive()
		if err != nil {
			return
		}
		switch m := m.(type) {
		case *pgproto3.Parse:
			if refused = !strings.Contains(m.Query, "server_version_num"); refused {
				b.Send(&pgproto3.ErrorResponse{Severity: "ERROR", Code: "42601", Message: "syntax error"})
			} else {
				b.Send(&pgproto3.ParseComplete{})
			}
		case *pgproto3.Execute:
			if !refused {
				b.Send(&pgproto3.BindComplete{})
				b.Send(&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("pid")},
					{Name: []byte("version")}}})
				b.Send(&pgproto3.DataRow{Values: [][]byte{[]byte("1"), []byte(strconv.Itoa(version))}})
				b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
			}
		case *pgproto3.Query:
			b.Send(&pgproto3.ErrorResponse{Severity: "ERROR", Code: "42601", Message: "syntax error"})
			b.Send(ready)
		case *pgproto3.Sync:
			b.Send(ready)
		}
	}
}
