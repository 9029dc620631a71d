// Package gate bounds how many calls for one key a process makes at a time.
package gate

import (
	"context"
	"sync"
)

// Gates let calls for a key pass in order. The zero value lets one call for each key pass at a
// time.
type Gates struct {
	Size int // how many calls for a key pass at a time; 0: one

	mu   sync.Mutex
	keys map[string]*gate
}

type gate struct {
	users int           // calls that passed or wait
	slots chan struct{} // holds a value for each call that passed
}

// Enter waits until a call for a key may be made. The caller calls leave after it. If ctx ends
// first, Enter returns its error.
func (g *Gates) Enter(ctx context.Context, key string) (leave func(), err error) {
	g.mu.Lock()
	k := g.keys[key]
	if k == nil {
		if g.keys == nil {
			g.keys = map[string]*gate{}
		}
		k = &gate{slots: make(chan struct{}, max(g.Size, 1))}
		g.keys[key] = k
	}
	k.users++
	g.mu.Unlock()
	forget := func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(g.keys, key)
		}
	}
	select {
	case k.slots <- struct{}{}:
		return func() { <-k.slots; forget() }, nil
	case <-ctx.Done():
		forget()
		return nil, ctx.Err()
	}
}
