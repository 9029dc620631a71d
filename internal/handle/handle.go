// Package handle has the text of a handle: a claim on its way from one process to another, which
// may be a client of a lock server. The text is a secret.
package handle

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/names"
)

// The bounds of a TTL.
const (
	MinTTL = 100 * time.Millisecond
	MaxTTL = 24 * time.Hour
)

const (
	prefix   = "dlh1." // the version of the text
	maxText  = 4096    // bytes of the text; the longest name makes less than 3000
	maxOwner = 64      // bytes of an owner; ours have 26
)

// The modes of a claim.
const (
	Exclusive = "exclusive"
	Shared    = "shared"
	Counted   = "counted"
)

// A Handle has the fields of a handle, with their names in the text.
type Handle struct {
	Key   string        `json:"k"` // in the store
	Owner *string       `json:"o"` // a pointer: fmt shows no more than its address
	Fence uint64        `json:"f,omitempty"`
	Mode  string        `json:"m"`
	TTL   time.Duration `json:"t"`
	Delay time.Duration `json:"d,omitempty"` // how much longer the store keeps the claim
}

// Valid reports whether h can be the handle of a claim.
func (h *Handle) Valid() bool {
	_, name, ok := names.Split(h.Key)
	return ok && names.Flaw(name) == "" && h.Owner != nil && names.TextFlaw(*h.Owner, maxOwner) == "" &&
		(h.Mode == Exclusive || h.Mode == Shared || h.Mode == Counted) && h.Fence < driver.MaxFence &&
		h.TTL >= MinTTL && h.TTL <= MaxTTL && h.Delay >= 0 && h.Delay <= MaxTTL
}

// ID returns the claim of a valid handle.
func (h *Handle) ID() driver.ID { return driver.ID{Key: h.Key, Owner: *h.Owner} }

// Secret returns the text.
func (h *Handle) Secret() string {
	b, err := json.Marshal(h)
	if err != nil {
		panic(err) // strings and numbers have a JSON form
	}
	return prefix + base64.RawURLEncoding.EncodeToString(b)
}

// ErrNotOurs is the error of a handle that is not valid.
var ErrNotOurs = errors.New("it was not made by Lease.Detach or a lock server")

// Parse is the reverse of Secret. The error has nothing of the text.
func Parse(text string) (Handle, error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), prefix)
	if !ok {
		return Handle{}, fmt.Errorf("it does not begin with %q", prefix)
	}
	if len(rest) > maxText {
		return Handle{}, fmt.Errorf("it has %d bytes, more than %d", len(rest), maxText)
	}
	var h Handle
	b, err := base64.RawURLEncoding.DecodeString(rest)
	if err != nil || json.Unmarshal(b, &h) != nil {
		return Handle{}, errors.New("it is cut or changed")
	}
	if !h.Valid() {
		return Handle{}, ErrNotOurs
	}
	return h, nil
}
