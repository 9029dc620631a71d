package postgres_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
)

// A store on a full disk is unavailable, and works again when there is space. The tables are on a
// small disk of their own.
func TestStore_diskFull(t *testing.T) {
	t.Parallel()
	disk := testenv.NewDisk(t, 24<<20)
	srv := testenv.Postgres(t)
	dir := filepath.Join(disk.Path, "tables")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat("/proc/" + fmt.Sprint(srv.PID()))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, int(info.Sys().(*syscall.Stat_t).Uid), -1); err != nil {
		t.Fatal(err)
	}
	query(t, srv, "create tablespace small location '"+dir+"'")
	s := made(t, srv.URL+"&default_tablespace=small", nil)
	held := exclusive("held")
	fence := grant(t, s, held).Fence
	if err := disk.Fill(); err != nil {
		t.Fatal(err)
	}
	var full error
	for i := 0; i < 200 && full == nil; i++ { // the tables have some space left
		r := exclusive(fmt.Sprint("k", i))
		r.Value = []byte(strings.Repeat(fmt.Sprint(time.Now().UnixNano(), i), 2000))[:driver.MaxValue/2]
		for j := range r.Value {
			r.Value[j] ^= byte(j * i * 31) // hard to compress
		}
		_, full = s.Acquire(t.Context(), r)
	}
	if !errors.Is(full, driver.ErrUnavailable) || !strings.Contains(full.Error(), "53100") {
		t.Fatalf("on a full disk: %v, want ErrUnavailable with 53100", full)
	}
	if err := disk.Free(); err != nil {
		t.Fatal(err)
	}
	if again := grant(t, s, held); again.Fence != fence {
		t.Errorf("the claim from before has fence %d, want %d", again.Fence, fence)
	}
	grant(t, s, exclusive("later"))
}
