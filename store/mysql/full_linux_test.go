package mysql_test

import (
	"fmt"
	"testing"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
)

// On a full disk the server refuses calls or ends itself. No grant is reported that is not there.
// When there is space and the server runs, it has all claims.
func TestStore_diskFull(t *testing.T) {
	t.Parallel()
	disk := testenv.NewDisk(t, 160<<20)
	srv := testenv.MariaDB(t, testenv.OnDisk(disk))
	s := made(t, srv.URL, nil)
	held := exclusive("held")
	fence := grant(t, s, held).Fence
	if err := disk.Fill(); err != nil {
		t.Fatal(err)
	}
	var full error
	var granted []string
	for i := 0; i < 400 && full == nil; i++ { // the tables have some space left
		r := exclusive(fmt.Sprint("k", i))
		r.Value = make([]byte, driver.MaxValue)
		if _, full = s.Acquire(t.Context(), r); full == nil {
			granted = append(granted, r.Key)
		}
	}
	if full == nil {
		t.Error("the disk is full, and no call failed")
	}
	if err := disk.Free(); err != nil {
		t.Fatal(err)
	}
	srv.Restart()
	works(t, s)
	if again := grant(t, s, held); again.Fence != fence {
		t.Errorf("the claim from before has fence %d, want %d", again.Fence, fence)
	}
	for _, key := range granted {
		refuse(t, s, exclusive(key))
	}
}
