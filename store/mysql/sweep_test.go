package mysql_test

import (
	"testing"

	"github.com/distlock/distlock/internal/testenv"
)

// A key is forgotten ten minutes after the clock has passed its fence, and its fences still rise:
// by each of the two ways to acquire a new key.
func TestSweep(t *testing.T) {
	t.Parallel()
	url := testenv.MariaDB(t, testenv.Shared()).Database(t)
	s, db := made(t, url, nil), database(t, url)
	for _, key := range []string{"direct", "procedure"} {
		r := exclusive(key)
		grant(t, s, r)
		release(t, s, r)
	}
	grant(t, s, exclusive("held"))
	grant(t, s, shared("shared"))
	if err := s.Close(); err != nil { // it sweeps after its grants
		t.Fatal(err)
	}
	// As if eleven minutes had passed.
	if _, err := db.Exec("UPDATE distlock_claim SET last = last - 660000000 WHERE slot = ''"); err != nil {
		t.Fatal(err)
	}
	last := value(t, db, "SELECT MAX(last) FROM distlock_claim WHERE ends = 0 AND others = 0")
	rows := func() string { return value(t, db, "SELECT COUNT(*) FROM distlock_claim") }
	if _, err := db.Exec("CALL distlock_sweep('', 1)"); err != nil || rows() != "4" {
		t.Errorf("after one key: %s rows, %v, want 4", rows(), err)
	}
	if _, err := db.Exec("CALL distlock_sweep('', 100)"); err != nil || rows() != "3" {
		t.Errorf("after all keys: %s rows, %v, want those of the claims", rows(), err)
	}
	if floor := value(t, db, "SELECT value FROM distlock_meta WHERE name = 'fence'"); floor < last {
		t.Errorf("the floor is %s, want at least %s", floor, last)
	}
	// A floor above the clock stands for a clock that was set back.
	if _, err := db.Exec("UPDATE distlock_meta SET value = CAST(value AS SIGNED) + 3600000000 WHERE name = 'fence'"); err != nil {
		t.Fatal(err)
	}
	floor := value(t, db, "SELECT value FROM distlock_meta WHERE name = 'fence'")
	s = made(t, url, nil)
	fence := grant(t, s, exclusive("direct")).Fence
	withFloor := exclusive("procedure")
	withFloor.Floor = 1 // which needs the procedure
	for _, f := range []uint64{fence, grant(t, s, withFloor).Fence} {
		if value(t, db, "SELECT ? >= ? + 128", f, floor) != "1" {
			t.Errorf("the fence is %d, below the floor %s", f, floor)
		}
	}
}
