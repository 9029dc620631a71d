//go:build unix

package postgres_test

import (
	"strconv"
	"syscall"
	"testing"

	"github.com/distlock/distlock/internal/testenv"
)

// killBackend kills one process of the server. The server then ends all connections and recovers.
func killBackend(t testing.TB, srv *testenv.PostgresServer) {
	t.Helper()
	rows := query(t, srv, "select pid from pg_stat_activity where pid <> pg_backend_pid() and backend_type = 'client backend' limit 1")
	if len(rows) == 0 {
		t.Fatal("nobody is connected")
	}
	pid, err := strconv.Atoi(rows[0][0])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// The context manager of docs/postgres.md reports the loss of the lock when the connection breaks.
// It also does so when the server is silent, before a rival can have the lock. An exception of the
// body is raised.
func TestSQL_pythonLost(t *testing.T) {
	t.Parallel()
	const script = `
try:
    with lock(connect, sys.stdin.readline().strip(), ttl=10) as lost:
        print("held", flush=True)
        if not lost.wait(15):
            sys.exit("it is not lost")
        at = time.time()
        print("lost", flush=True)
        print(at, flush=True)
        if sys.stdin.readline() == "raise\n":
            raise ValueError("mine") from KeyError("its cause")
except Lost as e:
    print("Lost", flush=True)
except ValueError as e:
    assert isinstance(e.__cause__, Lost) and isinstance(e.__cause__.__cause__, KeyError), repr(e.__cause__)
    print("ValueError", flush=True)
`
	srv := testenv.Postgres(t) // a server of our own: its processes are stopped
	s := made(t, srv.URL, nil)
	works(t, s)
	for _, tt := range []struct{ name, answer, end string }{{"silent", "", "Lost"}, {"broken", "raise", "ValueError"}} {
		t.Run(tt.name, func(t *testing.T) {
			p := startPython(t, srv.URL, script)
			p.send(tt.name)
			p.expect("held")
			backend, err := strconv.Atoi(query(t, srv,
				"select pid from pg_stat_activity where application_name = 'python'")[0][0])
			if err != nil {
				t.Fatal(err)
			}
			if tt.name == "broken" {
				query(t, srv, "select pg_terminate_backend("+strconv.Itoa(backend)+")")
				p.expect("lost")
				<-p.lines
			} else {
				if err := syscall.Kill(backend, syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
				defer syscall.Kill(backend, syscall.SIGCONT)
				refuse(t, s, exclusive(tt.name))
				ends, err := strconv.ParseFloat(query(t, srv,
					"select extract(epoch from ends) from distlock.claim where key = '"+tt.name+"'")[0][0], 64)
				if err != nil {
					t.Fatal(err)
				}
				p.expect("lost")
				// A tenth of the TTL is left.
				if at, err := strconv.ParseFloat(<-p.lines, 64); err != nil || at >= ends {
					t.Errorf("reported at %f, %v, when a rival may have had it since %f", at, err, ends)
				}
			}
			p.send(tt.answer)
			p.expect(tt.end)
		})
	}
}
