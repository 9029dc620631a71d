package server

import (
	"context"
	"strings"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/deadlock"
	"github.com/distlock/distlock/internal/names"
	"github.com/distlock/distlock/server/access"
)

const (
	// maxProbe is the longest TTL of a probe: keys of a readiness check and of the doctor.
	maxProbe = time.Minute

	// maxNotice and maxNoticeText bound a notice of a call that waits, for deadlock detection.
	maxNotice     = 5 * time.Second
	maxNoticeText = 16 << 10

	// minQueue is the life of a queue entry that every permission allows: the library waits with
	// entries of up to 30 s.
	minQueue = 30 * time.Second
)

// doctor is the prefix of the keys of distlock doctor.
const doctor = "~doctor/"

// A subject is what a key is about.
type subject struct {
	kind names.Kind
	name string
	is   part
}

// A part is one of the parts of the key space, which have rules of their own.
type part int

const (
	internal part = iota // keys that are no names: for clients that may do the same to all names
	named                // names of every kind of lock
	probe                // for every client that may acquire something
	notice               // its text says which names it is about
)

// about returns what a key is about. Permissions are about names, of every kind: raw keys are never
// compared.
func about(key string) subject {
	kind, name, ok := names.Split(key)
	switch {
	case ok && names.Flaw(name) == "":
		return subject{kind, name, named}
	case ok:
	case strings.HasPrefix(key, string(names.Check)), strings.HasPrefix(key, doctor):
		return subject{name: key, is: probe}
	case strings.HasPrefix(key, string(names.Notice)):
		return subject{name: key, is: notice}
	}
	return subject{name: key}
}

// permit returns the permission of the caller for a verb on a key, or the error of a call that it
// may not make. A permission is about a name, of every kind of lock. Keys of no kind are for
// callers that may do the same to every name.
func (s *Server) permit(ctx context.Context, v access.Verb, key string) (access.Permission, error) {
	to := about(key)
	p, ok := to.permission(access.FromContext(ctx), v)
	if !ok {
		return p, s.deny(ctx, v, to)
	}
	return p, nil
}

// permission returns the permission of an identity for a verb. Notices are not decided here but by
// their text.
func (to subject) permission(id *access.Identity, v access.Verb) (access.Permission, bool) {
	switch {
	case to.is == named:
		return id.Find(v, to.name)
	case to.is == probe && v != access.Break:
		return access.Permission{Verbs: v, MaxTTL: maxProbe}, id.MayAny(access.Acquire)
	case to.is == notice && v != access.Break:
		return access.Permission{Verbs: v, MaxTTL: maxNotice}, id.MayAny(v)
	}
	return access.Permission{Names: "*", Verbs: v}, id.MayAll(v)
}

// deny returns the error of a call that the caller may not make, and records it. It is the same for
// names that do not exist.
func (s *Server) deny(ctx context.Context, v access.Verb, to subject) error {
	id, hint := access.FromContext(ctx), ""
	if v == access.Break && len(s.opt.Authenticate) == 0 && s.opt.Local != nil && id.Name == s.opt.Local.Name {
		hint = ": start the server with --local acquire,observe,break, or use its Unix socket"
	}
	err := denied("%s may not %v %s%s", id.Name, v, names.Quote(to.name), hint)
	s.audit(ctx, &Entry{Verb: v.String(), subject: to, Outcome: outcomeDenied})
	return err
}

// request checks a request for a claim.
func (s *Server) request(ctx context.Context, r *driver.Request) error {
	p, err := s.permit(ctx, access.Acquire, r.Key)
	if err != nil {
		return err
	}
	to := about(r.Key)
	most := to.longest(p)
	if err := s.limit(ctx, to, "TTL", r.TTL, most); err != nil {
		return err
	}
	// A store may grant a claim to a queue entry, for the rest of its life.
	if err := s.limit(ctx, to, "life of a queue entry", r.QueueTTL, atLeast(most, minQueue)); err != nil {
		return err
	}
	if to.is == notice {
		if r.Weight != 1 || r.Limit != driver.Whole || r.QueueTTL != 0 {
			return s.deny(ctx, access.Acquire, to)
		}
		return s.text(ctx, to, r.Value)
	}
	return nil
}

// longest returns the longest TTL of a claim. A pass of a rate limit lives for the span of the
// limit, as a record does.
func (to subject) longest(p access.Permission) time.Duration {
	if to.kind == names.RateLimit {
		return p.MaxKeep
	}
	return p.MaxTTL
}

// atLeast returns a limit that is not below a duration; 0 is none.
func atLeast(limit, d time.Duration) time.Duration {
	if limit == 0 {
		return 0
	}
	return max(limit, d)
}

// renewal checks a renewal.
func (s *Server) renewal(ctx context.Context, r *driver.Renewal) error {
	p, err := s.permit(ctx, access.Acquire, r.Key)
	if err != nil {
		return err
	}
	to := about(r.Key)
	switch {
	case r.Keep && (to.is == notice || to.is == probe):
		return s.deny(ctx, access.Acquire, to)
	case r.Keep:
		return s.limit(ctx, to, "life of a record", r.TTL, p.MaxKeep)
	}
	if err := s.limit(ctx, to, "TTL", r.TTL, to.longest(p)); err != nil {
		return err
	}
	if to.is == notice && r.Value != nil {
		return s.text(ctx, to, r.Value)
	}
	return nil
}

// limit checks a duration against the longest one that a permission allows.
func (s *Server) limit(ctx context.Context, to subject, what string, d, most time.Duration) error {
	if most == 0 || d <= most {
		return nil
	}
	s.audit(ctx, &Entry{Verb: access.Acquire.String(), subject: to, Outcome: outcomeDenied, Reason: what})
	return denied("the longest %s of %s for %s is %v, and not %v", what, names.Quote(to.name), access.FromContext(ctx).Name, most, d)
}

// text checks the text of a notice: the caller may acquire both names in it. So nobody makes a
// deadlock of others appear.
func (s *Server) text(ctx context.Context, to subject, value []byte) error {
	if len(value) > maxNoticeText {
		return invalid("a notice is too long")
	}
	holds, wants, ok := deadlock.Keys(value)
	if !ok {
		return s.deny(ctx, access.Acquire, to)
	}
	for _, key := range []string{holds, wants} {
		if to := about(key); to.is == notice || to.is == probe {
			return s.deny(ctx, access.Acquire, to)
		}
		if _, err := s.permit(ctx, access.Acquire, key); err != nil {
			return err
		}
	}
	return nil
}

// visible returns a claim as an identity may see it, or false if it may not. A value is for callers
// that may acquire the name. A notice is for callers that may observe both names in it.
func visible(id *access.Identity, c driver.Claim) (driver.Claim, bool) {
	to := about(c.Key)
	if to.is == notice {
		holds, wants, ok := deadlock.Keys(c.Value)
		if !ok {
			return c, id.MayAll(access.Observe)
		}
		return c, sees(id, holds) && sees(id, wants)
	}
	if _, may := to.permission(id, access.Acquire); may {
		return c, true
	}
	c.Value = nil
	_, may := to.permission(id, access.Observe)
	return c, may
}

// sees reports whether an identity may observe the name of a key in a notice.
func sees(id *access.Identity, key string) bool {
	to := about(key)
	_, may := to.permission(id, access.Observe)
	return may && to.is != notice && to.is != probe
}
