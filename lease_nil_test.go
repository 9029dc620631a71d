package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/fence"
)

// A context that was not passed on has no lease. Code that looks for a lease in it gets an error or
// a fence that guards refuse, and does not panic.
func TestLease_none(t *testing.T) {
	for name, lease := range map[string]*distlock.Lease{"nil": distlock.FromContext(t.Context()), "zero": new(distlock.Lease)} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			wantErr(t, lease.Err(), distlock.ErrReleased)
			wantErr(t, lease.Unlock(ctx), distlock.ErrReleased)
			wantErr(t, lease.Extend(ctx, time.Second), distlock.ErrReleased)
			_, err := lease.Detach(t.Context())
			wantErr(t, err, distlock.ErrReleased)
			_, err = lease.Downgrade(ctx)
			wantErr(t, err, distlock.ErrReleased)
			if lease.Valid(0) || lease.Wanted() || !lease.Until().IsZero() || !isClosed(lease.Done()) {
				t.Errorf("valid %v, wanted %v, until %v, done %v", lease.Valid(0), lease.Wanted(), lease.Until(), isClosed(lease.Done()))
			}
			if lease.Fence() != 0 || lease.Name() != "" || lease.Mode() != "" || fmt.Sprintf("%v %+v", lease, lease) != "no lease no lease" {
				t.Errorf("fence %d, name %q, mode %q, %v", lease.Fence(), lease.Name(), lease.Mode(), lease)
			}
			work := lease.Context(ctx)
			if !isClosed(work.Done()) || !errors.Is(context.Cause(work), distlock.ErrReleased) || distlock.FromContext(work) != nil {
				t.Errorf("%v, %v", work.Err(), context.Cause(work))
			}
			if p, err := fence.Of(lease); !errors.Is(err, fence.ErrInvalid) {
				t.Errorf("a guard takes %v, %v", p, err)
			}
			if p, err := distlock.ParseProof(lease.Proof()); invalidWhat(err) != "proof" {
				t.Errorf("the proof is %v, %v", p, err)
			}
		})
	}
}
