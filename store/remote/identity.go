package remote

import (
	"fmt"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
)

// An OtherStoreError means that a server has another store than the one that this client has used.
// The two exclude nobody of each other. It is [driver.ErrUnavailable]: the call changed nothing.
type OtherStoreError struct {
	Server      string // the address of the server
	Want, Found string // the identities of the stores, as store_id has them in a URL
}

func (e *OtherStoreError) Error() string {
	return fmt.Sprintf("remote: the lock server %s has the store %s, and this client uses the store %s: "+
		"two stores are two sets of locks", e.Server, e.Found, e.Want)
}

// Is makes an OtherStoreError a [driver.ErrUnavailable].
func (e *OtherStoreError) Is(target error) bool { return target == driver.ErrUnavailable }

// An identity is the store that a client uses.
type identity struct {
	pinned bool // by the URL: it never changes

	mu       sync.Mutex
	id       string        // "": no server has answered yet
	met      time.Time     // when a server with it answered last
	longest  time.Duration // the longest time for which a claim is trusted
	other    *OtherStoreError
	replaced string // the identity before this one; "": none
}

// uses notes for how long a claim may be trusted.
func (i *identity) uses(ttl time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.longest = max(i.longest, ttl)
}

func (i *identity) now() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.id
}

// meet notes the identity in an answer to a call that carried the identity sent. It returns an
// error if that is another store.
//
// The store of a server may be made again, and then it is another one for ever. The client takes
// it if it has not met the old one for as long as a claim may be trusted: by then it holds none.
func (i *identity) meet(server, sent, found string) *OtherStoreError {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	if i.id == "" {
		i.id = found
	}
	if i.id == found {
		i.met = now
		return nil
	}
	i.other = &OtherStoreError{Server: server, Want: sent, Found: found}
	if !i.pinned && sent == i.id && now.Sub(i.met) > i.longest {
		i.replaced, i.id, i.met = i.id, found, now
	}
	return i.other
}

// found returns the last server with another store, or nil.
func (i *identity) found() *OtherStoreError {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.other
}

// findings returns a warning if the store was replaced.
func (i *identity) findings() []driver.Finding {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.replaced == "" {
		return nil
	}
	return []driver.Finding{{
		Level: driver.LevelWarning, What: fmt.Sprintf("the lock server had the store %s, and has the store %s now", i.replaced, i.id),
		Means: "the locks of the first store do not exclude those of the second",
		Cure:  "if this was not intended, give the server its old store again, and pin it with store_id in the URL",
	}}
}
