package main

import (
	"testing"

	"github.com/distlock/distlock"
)

// TestHighest shows up to which fence break ends claims: AllFences if one of
// them has no fence.
func TestHighest(t *testing.T) {
	for _, tt := range []struct {
		fences []uint64
		want   uint64
	}{{nil, 0}, {[]uint64{7}, 7}, {[]uint64{7, 300, 9}, 300}, {[]uint64{7, 0, 9}, distlock.AllFences}} {
		var claims []distlock.Claim
		for _, f := range tt.fences {
			claims = append(claims, distlock.Claim{Fence: f})
		}
		if got := highest(claims); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.fences, got, tt.want)
		}
	}
}
