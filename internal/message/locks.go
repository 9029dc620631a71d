package message

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/handle"
	"github.com/distlock/distlock/internal/names"
)

// LockClaim returns a claim or a queue entry as the service Locks shows it.
func LockClaim(c driver.Claim) *api.LockClaim {
	m := &api.LockClaim{
		Holder: valid(c.Holder), Owner: valid(c.Owner), Waiting: c.Waiting, Kept: c.Kept,
		Mode: Mode(c.Weight, c.Limit), Since: durationpb.New(c.Held), Value: c.Value,
	}
	if m.GetMode() == handle.Counted {
		m.Weight, m.Slots = proto.Int32(int32(c.Weight)), proto.Int32(int32(c.Limit)) // both are at most 2^30
	}
	if c.Fence > 0 {
		m.Fence = proto.Uint64(c.Fence)
	}
	if c.Left > 0 {
		m.Left = durationpb.New(c.Left)
	}
	for k := range c.Meta {
		if k == names.Note {
			m.Note = proto.String(valid(c.Meta[k]))
			continue
		}
		if m.Labels == nil {
			m.Labels = map[string]string{}
		}
		m.Labels[valid(k)] = valid(c.Meta[k])
	}
	return m
}

// Mode returns the mode of a claim.
func Mode(weight, limit int64) string {
	switch {
	case weight == driver.Whole:
		return handle.Exclusive
	case limit == driver.Whole:
		return handle.Shared
	}
	return handle.Counted
}

// Duration returns a duration in a message, or false if the message has none that a Duration can
// represent. An absent one is 0.
func Duration(m *durationpb.Duration) (time.Duration, bool) {
	if m == nil {
		return 0, true
	}
	d := m.AsDuration()
	return d, m.CheckValid() == nil && d < 1<<63-1 && d > -1<<63 // AsDuration returns the nearest
}
