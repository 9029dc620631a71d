package mysql_test

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
)

// replicated starts a primary and an asynchronous replica.
func replicated(t *testing.T) (primary, replica *testenv.MariaDBServer, clock *testenv.Clock) {
	t.Helper()
	primary = testenv.MariaDB(t, testenv.Config("log_bin = bin", "server_id = 1"))
	replica = testenv.MariaDB(t, testenv.Config("server_id = 2"))
	clock = testenv.NewClock(t, replica.Server)
	u, err := url.Parse(primary.URL)
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(primary.Addr)
	password, _ := u.User.Password()
	run(t, replica, fmt.Sprintf("CHANGE MASTER TO MASTER_HOST = '%s', MASTER_PORT = %s, MASTER_USER = '%s', MASTER_PASSWORD = '%s', MASTER_USE_GTID = slave_pos",
		host, port, u.User.Username(), password))
	run(t, replica, "START SLAVE")
	return primary, replica, clock
}

func run(t *testing.T, srv *testenv.MariaDBServer, text string) {
	t.Helper()
	if _, err := srv.Query(t.Context(), text); err != nil {
		t.Fatal(err)
	}
}

// A replica that has the claim refuses the key, and one that does not have it grants the key again,
// with a higher fence. Until it accepts writes, it is unavailable.
func TestStore_failover(t *testing.T) {
	t.Parallel()
	primary, replica, _ := replicated(t)
	s := made(t, primary.URL, nil)
	kept := exclusive("kept")
	fence := grant(t, s, kept).Fence
	run(t, replica, "SET GLOBAL read_only = ON")
	other := made(t, replica.URL, nil)
	var res driver.Result
	var err error
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		var all []driver.Claim
		if all, err = other.Show(t.Context(), "kept"); err == nil && len(all) == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the replica does not have the claim: %v, %v", all, err)
		}
	}
	run(t, replica, "CREATE OR REPLACE USER reader@'%' IDENTIFIED BY 'pw'")
	run(t, replica, "GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON distlock.* TO reader@'%'")
	u, _ := url.Parse(replica.URL)
	u.User = url.UserPassword("reader", "pw") // read_only does not hold for the first user
	if _, err := made(t, u.String(), nil).Acquire(t.Context(), exclusive("free")); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("on a read-only server: %v, want ErrUnavailable", err)
	}
	run(t, replica, "STOP SLAVE")
	lost := exclusive("lost")
	first := grant(t, s, lost)
	primary.Kill()
	run(t, replica, "SET GLOBAL read_only = OFF")
	if res = refuse(t, other, exclusive("kept")); res.Blocker.Fence != fence {
		t.Errorf("the blocker is %+v", res.Blocker)
	}
	if _, err := other.Renew(t.Context(), driver.Renewal{ID: kept.ID, TTL: time.Minute}); err != nil {
		t.Errorf("the claim cannot be renewed at the new primary: %v", err)
	}
	if second := grant(t, other, exclusive("lost")); second.Fence <= first.Fence {
		t.Errorf("fence %d after %d", second.Fence, first.Fence)
	}
}

// If the clock of the new primary is behind, it issues lower fences for a claim that it does not
// know.
func TestStore_failover_behind(t *testing.T) {
	t.Parallel()
	primary, replica, clock := replicated(t)
	s := made(t, primary.URL, nil)
	works(t, s)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		rows, err := replica.Query(t.Context(), "SELECT COUNT(*) FROM distlock_claim")
		if err == nil && rows[0][0] != "0" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the replica has no tables: %v", err)
		}
	}
	run(t, replica, "STOP SLAVE")
	first := grant(t, s, exclusive("lost"))
	primary.Kill()
	clock.Set(-time.Hour)
	if second := grant(t, made(t, replica.URL, nil), exclusive("lost")); second.Fence >= first.Fence {
		t.Errorf("fence %d after %d: the page of guarantees says too little", second.Fence, first.Fence)
	}
}
