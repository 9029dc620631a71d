package open_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/open"
)

func TestOpen_advisory(t *testing.T) {
	pg := testenv.Postgres(t, testenv.Shared())
	url := pg.Database(t) + "&lock_mode=advisory"
	s := use(t, url+"&lock_ttl=7s&lock_conns=2")
	if name := s.Store.Features().Name; name != "pgadvisory" {
		t.Error("it is called", name)
	}
	if from, to, err := open.Migrate(t.Context(), url); from != "1" || to != "1" || err != nil {
		t.Error("Migrate:", from, to, err)
	}
	if sql, err := open.Migration(url); err != nil || !strings.Contains(sql, "create sequence") {
		t.Error("Migration:", sql, err)
	}
	pooled := testenv.PgBouncer(t, pg, testenv.PoolTransaction).URL
	if _, err := open.Open(t.Context(), pooled+"&lock_mode=advisory"); !errors.Is(err, open.ErrURL) || !strings.Contains(err.Error(), "pool_mode") {
		t.Error("through a pooler:", err)
	}
	if _, err := open.Open(t.Context(), url+"&lock_cons=1"); !errors.Is(err, open.ErrURL) || !strings.Contains(err.Error(), "lock_conns") {
		t.Error("with a key that is not known:", err)
	}
}
