package fence_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/fence"
	"github.com/distlock/distlock/store/mem"
)

func TestParseFence(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", " ", "-1", "0", "+1", "01", "1e3", "1.0", "0x10", "1_000", " 1", "1 ", "1\n", "٣",
		"9007199254740992", "9007199254740993", "9223372036854775808", "18446744073709551616", strings.Repeat("9", 500),
	} {
		if n, err := fence.ParseFence(s); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("%.40q: %d, %v, want ErrInvalid", s, n, err)
		} else if len(err.Error()) > 150 {
			t.Errorf("the error has %d bytes", len(err.Error()))
		}
	}
	for s, want := range map[string]uint64{"1": 1, "10": 10, "9007199254740991": 1<<53 - 1} {
		if n, err := fence.ParseFence(s); n != want || err != nil {
			t.Errorf("%q: %d, %v, want %d", s, n, err, want)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", "7", "7;exclusive", "7;exclusive;", "7;exclusive;a;b", "7;exclusive;%zz", "7;exclusive;%00", "7;exclusive;+",
		"7;shared;a", "7;counted;a", "7;Exclusive;a", "7;exclusive;~a", "7;exclusive;~lead%2F", "7;exclusive;~check%2Fa", "7;;a", "0;exclusive;a", "-1;exclusive;a", "7;exclusive;" + strings.Repeat("a", 256),
	} {
		if p, err := fence.Parse(s); !errors.Is(err, fence.ErrInvalid) || p != (fence.Proof{}) {
			t.Errorf("%.40q: %v, %v, want ErrInvalid", s, p, err)
		}
	}
	p, err := fence.Parse("7;exclusive;invoice%2F42")
	if err != nil || p.Name() != "invoice/42" || p.Fence() != 7 {
		t.Errorf("%v, %v", p, err)
	}
	if back, err := fence.Parse(p.Proof()); back != p || err != nil {
		t.Errorf("%v, %v, want %v", back, err, p)
	}
}

// Package distlock and this package read a proof: both must read the same.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"7;exclusive;a", "7;shared;a", "7;counted;a", "9007199254740991;exclusive;%C3%A9", "07;exclusive;a", "7;exclusive;%E2%80%A8",
		"7;exclusive;a+b", "7;exclusive; ", "7;exclusive;%ff", "7;exclusive;~~a", "7;exclusive;~a", "7;exclusive;~lead%2Fa", "7;exclusive;~lead%2F",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ours, err := fence.Parse(s)
		theirs, want := distlock.ParseProof(s)
		if good := want == nil && theirs.Mode == distlock.ModeExclusive; good != (err == nil) {
			t.Fatalf("%q: %v here, %v in the library", s, err, want)
		}
		if err == nil && (ours.Name() != fence.NameOf(theirs.Kind, theirs.Name) || ours.Fence() != theirs.Fence) {
			t.Fatalf("%q: %v here, %v in the library", s, ours, theirs)
		}
	})
}

func TestNew_refuses(t *testing.T) {
	t.Parallel()
	for _, n := range []uint64{0, 1 << 53, 1<<53 + 1, 1 << 63, 1<<64 - 1} {
		if _, err := fence.New("a", n); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("%d: %v, want ErrInvalid", n, err)
		}
	}
	for _, key := range []string{"", "  ", "a\x00", "a\nb", "\xff", "a\u202eb", strings.Repeat("é", 128), "~a", fence.NameOf("lead", ""), fence.NameOf("leader", "a")} {
		if _, err := fence.New(key, 1); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("%q: %v, want ErrInvalid", key, err)
		}
	}
}

// A guard knows a lock by its kind and name.
func TestNameOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind       distlock.Kind
		name, want string
	}{
		{distlock.KindLock, "a", "a"}, {distlock.KindLock, "~lead/a", "~~lead/a"}, {distlock.KindElection, "a", "~lead/a"},
		{distlock.KindOnce, "a", "~once/a"}, {distlock.KindAny, "a", ""}, {"leader", "a", ""},
	} {
		if got := fence.NameOf(c.kind, c.name); got != c.want {
			t.Errorf("%s %q is %q, want %q", c.kind, c.name, got, c.want)
		}
	}
	long := fence.NameOf(distlock.KindElection, strings.Repeat("a", 255))
	if p, err := fence.New(long, 7); err != nil || p.Name() != long {
		t.Errorf("%v, %v", p, err)
	}
}

// The lock and the election of one name have a row each: neither makes the other stale.
func TestTable_kinds(t *testing.T) {
	ctx := t.Context()
	locker, err := distlock.New(mem.New())
	must(t, err)
	defer locker.Close(context.WithoutCancel(ctx))
	table, db := fence.Table{}, sqliteFile(t).open(t)
	must(t, table.Ensure(ctx, db))
	register := table.Register(db)
	lease, err := locker.Lock(ctx, "a")
	must(t, err)
	election, err := locker.Election()
	must(t, err)
	errEnough := errors.New("enough")
	err = election.Run(ctx, "a", func(ctx context.Context, term *distlock.Term) error {
		if term.Fence() <= lease.Fence() {
			t.Errorf("term %d is not above the fence %d: this shows nothing", term.Fence(), lease.Fence())
		}
		p, err := fence.Of(term)
		must(t, err)
		if want := fence.NameOf(distlock.KindElection, "a"); p.Name() != want || p.Fence() != term.Fence() {
			t.Errorf("%v, want the term %d of %s", p, term.Fence(), want)
		}
		must(t, register.Advance(ctx, term))
		must(t, register.Advance(ctx, lease))
		must(t, register.Advance(ctx, term))
		return errEnough
	})
	if !errors.Is(err, errEnough) {
		t.Error(err)
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	locker, err := distlock.New(mem.New())
	must(t, err)
	defer locker.Close(ctx)
	lease, err := locker.Lock(ctx, "invoice/42")
	must(t, err)
	if p, err := fence.Of(lease); err != nil || p.Name() != "invoice/42" || p.Fence() != lease.Fence() {
		t.Errorf("%v, %v, want fence %d of %s", p, err, lease.Fence(), lease.Name())
	}
	reader, err := locker.RLock(ctx, "catalogue")
	must(t, err)
	none := distlock.FromContext(ctx)
	if none != nil {
		t.Fatal("a context without a lease has one")
	}
	for what, l := range map[string]fence.Lease{
		"shared": reader, "zero": fence.Proof{}, "pointer to the zero": &fence.Proof{}, "nil": nil, "nil lease": none, "nil proof": (*fence.Proof)(nil),
	} {
		if _, err := fence.Of(l); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", what, err)
		}
	}
}
