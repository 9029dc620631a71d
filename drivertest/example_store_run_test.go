package drivertest_test

import (
	"context"
	"slices"
	"testing"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/drivertest"
)

func TestExampleStore(t *testing.T) {
	env := drivertest.Env{
		Open: func(testing.TB) driver.Store {
			return &exampleStore{keys: make(map[string]*exampleKey)}
		},
		Virtual:   true, // its only clock is time.Now
		Leftovers: func(_ testing.TB, s driver.Store) int { return len(s.(*exampleStore).keys) },
	}
	drivertest.Run(t, env)
	drivertest.Compare(t, env)
}

// Show is the only optional verb of exampleStore. A verb is a method and needs no declaration in
// Features. Show lets the suite check values and the order of the queue.
func (s *exampleStore) Show(_ context.Context, key string) (all []driver.Claim, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, now := s.open(key)
	for _, e := range slices.Concat(k.claims, k.queue) {
		all = append(all, e.claim(now))
	}
	return all, nil
}
