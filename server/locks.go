package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/handle"
	"github.com/distlock/distlock/internal/keeper"
	"github.com/distlock/distlock/internal/message"
	"github.com/distlock/distlock/internal/names"
	"github.com/distlock/distlock/server/access"
)

const (
	// maxShown is the number of holders, and of waiters, in the answer of Get. listShown is the
	// number of holders of each name in a list.
	maxShown  = 100
	listShown = 10

	// defaultLimit and maxLimit are the number of names in one answer of List.
	defaultLimit = 100
	maxLimit     = 500

	// maxReason is the length of the reason of Break, in bytes.
	maxReason = 256
)

// A locks is the service distlock.v1.Locks: the same store as that of the service Store, for people
// and for programs that count their trust themselves. It keeps nothing between two calls.
type locks struct{ *Server }

var _ api.LocksHandler = (*locks)(nil)

// Renew renews claims.
func (s *locks) Renew(ctx context.Context, m *api.LocksRenewRequest) (*api.LocksRenewResponse, error) {
	n := len(m.GetHandles())
	if n < 1 || n > maxRenewals {
		return nil, flaw("handles", "%d handles are not 1 to %d", n, maxRenewals)
	}
	out := &api.LocksRenewResponse{Results: make([]*api.LocksRenewed, n)}
	var renewals []driver.Renewal
	var at []int               // which of the handles they are of
	var trusts []time.Duration // how long each is trusted
	for i, text := range m.GetHandles() {
		h, err := handle.Parse(text)
		if err != nil {
			out.Results[i] = notRenewed(flaw("handles", "handle %d: %v", i+1, err))
			continue
		}
		renewals = append(renewals, driver.Renewal{ID: h.ID(), TTL: h.TTL + h.Delay})
		at, trusts = append(at, i), append(trusts, trust(h.TTL))
	}
	if len(renewals) == 0 {
		return out, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	for i, r := range driver.RenewAll(ctx, s.store, renewals) {
		if r.Err != nil {
			out.Results[at[i]] = notRenewed(r.Err)
			continue
		}
		out.Results[at[i]] = &api.LocksRenewed{
			Held: true, ValidFor: durationpb.New(trusts[i]), Waiters: proto.Int32(int32(min(r.Behind, 1<<30))),
		}
	}
	return out, nil
}

// notRenewed returns the result of a renewal that failed. The claim is lost only if the store says
// that it is not held.
func notRenewed(err error) *api.LocksRenewed {
	return &api.LocksRenewed{Lost: errors.Is(err, driver.ErrNotHeld), Reason: message.Reason(err)}
}

// trust returns how long a claim may be trusted, as the library counts it.
func trust(ttl time.Duration) time.Duration { return ttl - keeper.Margin(ttl) }

// Release ends a claim, or removes a queue entry.
func (s *locks) Release(ctx context.Context, m *api.LocksReleaseRequest) (*api.LocksReleaseResponse, error) {
	id, err := released(m)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	err = s.store.Release(ctx, id)
	if errors.Is(err, driver.ErrNotHeld) {
		return &api.LocksReleaseResponse{}, nil
	}
	return answer(err, func() *api.LocksReleaseResponse { return &api.LocksReleaseResponse{Released: true} })
}

// released returns which claim to release.
func released(m *api.LocksReleaseRequest) (driver.ID, error) {
	if m.GetHandle() == "" {
		if m.GetName() == "" && m.GetOwner() == "" {
			return driver.ID{}, flaw("handle", "give a handle, or name and owner")
		}
		key, err := keyOf(m.GetName(), m.GetKind())
		if err == nil {
			err = checkOwner(m.GetOwner())
		}
		return driver.ID{Key: key, Owner: m.GetOwner()}, err
	}
	if m.GetName() != "" || m.GetOwner() != "" || m.GetKind() != "" {
		return driver.ID{}, flaw("handle", "give a handle, or name and owner, and not both")
	}
	h, err := handle.Parse(m.GetHandle())
	if err != nil {
		return driver.ID{}, flaw("handle", "%v", err)
	}
	return h.ID(), nil
}

// keyOf returns the key of a name of a kind. No kind is that of locks.
func keyOf(name, kind string) (string, error) {
	if why := names.Flaw(name); why != "" {
		return "", flaw("name", "%s", why)
	}
	k, ok := names.Parse(cmp.Or(kind, names.Lock.Word()))
	if !ok {
		return "", noKind(kind)
	}
	return k.Key(name), nil
}

func noKind(kind string) error {
	var words []string
	for _, k := range names.Shown {
		words = append(words, k.Word())
	}
	return flaw("kind", "there is no kind %s: the kinds are %s", names.Quote(kind), strings.Join(words, ", "))
}

// Get returns who holds a name and who waits for it.
func (s *locks) Get(ctx context.Context, m *api.LocksGetRequest) (*api.LocksGetResponse, error) {
	key, err := keyOf(m.GetName(), m.GetKind())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	claims, err := driver.Show(ctx, s.store, key)
	if err != nil {
		return nil, failure(err)
	}
	lock := newLock(key)
	for _, c := range claims {
		lock.add(c, maxShown, maxShown)
	}
	return &api.LocksGetResponse{Lock: lock.Lock}, nil
}

// A lock is the claims of one key.
type lock struct {
	*api.Lock
	key string
}

func newLock(key string) lock {
	kind, name, _ := names.Split(key)
	return lock{&api.Lock{Name: name, Kind: kind.Word()}, key}
}

// add adds a claim, and counts those that are more than the answer shows.
func (l lock) add(c driver.Claim, holders, waiters int) {
	count, list, most := &l.Held, &l.Holders, holders
	if c.Waiting {
		count, list, most = &l.Waiting, &l.Queue, waiters
	}
	*count++
	if len(*list) < most {
		*list = append(*list, message.LockClaim(c))
	}
}

// compare orders locks by name, and those of one name by kind.
func (l lock) compare(other lock) int {
	return cmp.Or(strings.Compare(l.GetName(), other.GetName()), strings.Compare(l.GetKind(), other.GetKind()))
}

// A page is one answer of List: the first locks after another one. The store has no order.
type page struct {
	kind  string // "": all
	after lock
	most  int
	locks []lock // in order; one more than the answer has, if there are more
}

// List returns the names with a prefix.
func (s *locks) List(ctx context.Context, m *api.LocksListRequest) (*api.LocksListResponse, error) {
	p, prefixes, err := newPage(m)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	for _, prefix := range prefixes {
		var last lock // the one whose claims come now
		for c, err := range driver.List(ctx, s.store, prefix) {
			if err != nil {
				return nil, failure(err)
			}
			if last.Lock == nil || last.key != c.Key {
				last = newLock(c.Key)
				p.insert(last)
			}
			c.Value = nil // those of a page would be hundreds of megabytes
			last.add(c, listShown, 0)
		}
	}
	out := &api.LocksListResponse{}
	if len(p.locks) > p.most {
		p.locks = p.locks[:p.most]
		end := p.locks[p.most-1]
		out.Next = proto.String(end.GetKind() + "/" + end.GetName())
	}
	for _, l := range p.locks {
		out.Locks = append(out.Locks, l.Lock)
	}
	return out, nil
}

// newPage returns the page of a request, and which prefixes of keys to scan for it.
func newPage(m *api.LocksListRequest) (*page, []string, error) {
	p := &page{kind: m.GetKind(), most: int(cmp.Or(m.GetLimit(), defaultLimit))}
	if p.most < 1 || p.most > maxLimit {
		return nil, nil, flaw("limit", "%d is not 1 to %d", p.most, maxLimit)
	}
	if m.GetPrefix() != "" {
		if why := names.TextFlaw(m.GetPrefix(), names.Max); why != "" {
			return nil, nil, flaw("prefix", "%s", why)
		}
	}
	if m.GetAfter() != "" {
		kind, name, ok := strings.Cut(m.GetAfter(), "/")
		key, err := keyOf(name, kind)
		if !ok || err != nil {
			return nil, nil, flaw("after", "%s is not the next of an answer", names.Quote(m.GetAfter()))
		}
		p.after = newLock(key)
	}
	kinds := names.Shown[:]
	if p.kind != "" {
		k, ok := names.Parse(p.kind)
		if !ok {
			return nil, nil, noKind(p.kind)
		}
		kinds = []names.Kind{k}
	} else if m.GetPrefix() == "" {
		return p, []string{""}, nil // all keys, in one scan
	}
	var prefixes []string
	for _, k := range kinds {
		prefixes = append(prefixes, k.Key(m.GetPrefix()))
	}
	return p, prefixes, nil
}

// insert adds a lock at its place if it belongs on the page.
func (p *page) insert(l lock) {
	kind, name, ok := names.Split(l.key)
	if !ok || names.Flaw(name) != "" || p.kind != "" && kind.Word() != p.kind || p.after.Lock != nil && l.compare(p.after) <= 0 {
		return
	}
	at, _ := slices.BinarySearchFunc(p.locks, l, lock.compare)
	if at > p.most {
		return
	}
	p.locks = slices.Insert(p.locks, at, l)
	p.locks = p.locks[:min(len(p.locks), p.most+1)]
}

// Break ends claims of others.
func (s *locks) Break(ctx context.Context, m *api.LocksBreakRequest) (*api.LocksBreakResponse, error) {
	key, err := keyOf(m.GetName(), m.GetKind())
	switch {
	case err != nil:
		return nil, err
	case m.GetAll() == (m.GetUpToFence() > 0):
		return nil, flaw("upToFence", "give the fence that Get has shown, or all")
	}
	if why := names.TextFlaw(m.GetReason(), maxReason); why != "" {
		return nil, flaw("reason", "%s", why)
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	claims, err := driver.Break(ctx, s.store, key, m.GetUpToFence(), m.GetReason())
	if err != nil {
		return nil, failure(err)
	}
	out := &api.LocksBreakResponse{}
	for _, c := range claims {
		out.Broken = append(out.Broken, message.LockClaim(c))
	}
	return out, nil
}

// Info describes the server, its store and the caller.
func (s *locks) Info(ctx context.Context, _ *api.LocksInfoRequest) (*api.LocksInfoResponse, error) {
	f := s.store.Features()
	longest := handle.MaxTTL
	if f.MaxTTL > 0 {
		longest = min(longest, f.MaxTTL)
	}
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	return &api.LocksInfoResponse{
		Store: f.Name, StoreId: s.Identity(), Version: version, Identity: access.FromContext(ctx).Name,
		MinTtl: durationpb.New(max(handle.MinTTL, f.MinTTL)), MaxTtl: durationpb.New(longest),
		DefaultTtl: durationpb.New(defaultTTL), MaxWait: durationpb.New(maxWait), Draining: s.drained.Err() != nil,
	}, nil
}

// flaw returns the error of a field with a value that is not valid. It names the field.
func flaw(field, format string, args ...any) error {
	return message.Error(&api.Reason{Kind: api.Reason_KIND_INVALID, Text: field + ": " + fmt.Sprintf(format, args...)})
}
