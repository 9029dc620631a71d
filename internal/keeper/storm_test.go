package keeper

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock/driver"
)

// A storm is a keeper whose store, at every call, starts goroutines that use the holds that are
// being renewed. Everything happens at one instant, on all processors.
type storm struct {
	*testing.T
	*Keeper
	wg sync.WaitGroup

	lock     sync.Mutex
	holds    map[string]*Hold
	inFlight map[string]bool
}

func TestKeeper_storm(t *testing.T) {
	rounds := 1000
	if testing.Short() { // under the race detector
		rounds = 250
	}
	for range rounds {
		synctest.Test(t, func(t *testing.T) {
			s := &storm{T: t, holds: map[string]*Hold{}, inFlight: map[string]bool{}}
			s.Keeper = New(NewClock(), s.renewAll)
			var recorders []*recorder
			s.lock.Lock()
			for i := range 10 {
				w := &recorder{clock: s.clock}
				s.holds[fmt.Sprint(i)] = s.Keep(id(fmt.Sprint(i)), Terms{TTL: time.Second}, 0, w)
				w.onCall(func(record) { s.act(s.holds[fmt.Sprint(i)]) })
				recorders = append(recorders, w)
			}
			s.lock.Unlock()
			time.Sleep(3 * time.Second)
			for _, h := range s.holds {
				s.wg.Go(func() { s.act(h) })
			}
			s.Close()
			if len(s.queue) != 0 || len(s.inFlight) != 0 {
				t.Errorf("after Close: %d in the queue, %d being renewed", len(s.queue), len(s.inFlight))
			}
			s.wg.Wait()
			for i, w := range recorders {
				all := w.all()
				for j, n := range all {
					if n.lost != nil && j < len(all)-1 {
						t.Errorf("listener got %v", w.summary())
					}
				}
				if h := s.holds[fmt.Sprint(i)]; h.Trusted(0) || h.ended == nil || h.inFlight != nil || h.notifying {
					t.Errorf("hold %d outlived its keeper", i)
				}
			}
		})
		if t.Failed() {
			return
		}
	}
}

func (s *storm) renewAll(_ context.Context, rs []driver.Renewal) []driver.Renewed {
	out := make([]driver.Renewed, len(rs))
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, r := range rs {
		if s.inFlight[r.Key] {
			s.Errorf("a second renewal of %s is under way", r.Key)
		}
		s.inFlight[r.Key] = true
		h := s.holds[r.Key]
		for range 3 {
			s.wg.Go(func() { s.act(h) })
		}
	}
	s.lock.Unlock()
	if rand.N(2) == 0 {
		time.Sleep(rand.N(200 * time.Millisecond))
	}
	s.lock.Lock()
	for i, r := range rs {
		delete(s.inFlight, r.Key)
		switch rand.N(20) {
		case 0:
			out[i].Err = driver.ErrNotHeld
		case 1, 2, 3, 4:
			out[i].Err = errDown
		}
	}
	return out
}

// act does one thing to a hold.
func (s *storm) act(h *Hold) {
	ctx := context.Background()
	switch rand.N(16) {
	case 0:
		_ = h.Stop(ctx)
		if h.Trusted(0) || !h.Lose() {
			s.Error("trusted after Stop")
		}
	case 1, 2, 3:
		_ = h.Extend(ctx, time.Second+rand.N(time.Second))
	case 4, 5:
		if h.Lose() && h.Trusted(0) {
			s.Error("trusted after its loss")
		}
	case 6, 7:
		h.Again(s.clock.Now())
	case 8:
		h.HandOff(rand.N(10 * time.Second))
	default:
		if terms := h.Terms(); h.Left() > terms.TTL-Margin(terms.TTL) && terms.TTL == h.Terms().TTL {
			s.Errorf("%v left of a TTL of %v", h.Left(), terms.TTL)
		}
	}
}
