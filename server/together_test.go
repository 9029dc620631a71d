package server_test

import (
	"fmt"
	"testing"
	"time"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/message"
	"github.com/distlock/distlock/server"
	"github.com/distlock/distlock/server/access"
	"github.com/distlock/distlock/store/mem"
)

func attempt(key string) driver.Request {
	return driver.Request{ID: driver.ID{Key: key, Owner: "owner"}, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Minute}
}

// Several attempts, and several releases, in one message are as many calls: each has its own
// answer, is checked against the permissions of its name, and counts against the rate.
func TestServer_together(t *testing.T) {
	s := newSite(t, map[string][]access.Permission{"a": {{Names: "team-a/", Verbs: access.Acquire | access.Observe}}})
	c := s.client(t, "a")
	held := attempt("team-a/held")
	held.Owner = "other"
	if _, err := s.store.Acquire(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	wrong := attempt("team-a/wrong")
	wrong.Weight = -1
	m := &api.AcquireAllRequest{Attempts: []*api.AcquireRequest{
		message.Request(attempt("team-a/free")), message.Request(attempt("team-a/held")),
		message.Request(attempt("team-b/free")), message.Request(wrong),
	}}
	got, err := c.AcquireAll(c.ctx, m)
	if err != nil || len(got.GetAnswers()) != 4 {
		t.Fatal(got, err)
	}
	a := got.GetAnswers()
	if !a[0].GetAnswer().GetGranted() || a[0].GetReason() != nil || a[1].GetAnswer() == nil || a[1].GetAnswer().GetGranted() ||
		a[2].GetReason().GetKind() != api.Reason_KIND_DENIED || a[2].GetAnswer() != nil || a[3].GetReason().GetKind() != api.Reason_KIND_INVALID {
		t.Errorf("got %v", a)
	}
	ended, err := c.ReleaseAll(c.ctx, &api.ReleaseAllRequest{Ids: []*api.ID{
		m.GetAttempts()[0].GetId(), m.GetAttempts()[1].GetId(), m.GetAttempts()[2].GetId(),
	}})
	if err != nil || len(ended.GetAnswers()) != 3 {
		t.Fatal(ended, err)
	}
	for i, want := range []api.Reason_Kind{api.Reason_KIND_UNSPECIFIED, api.Reason_KIND_NOT_HELD, api.Reason_KIND_DENIED} {
		if kind := ended.GetAnswers()[i].GetReason().GetKind(); kind != want {
			t.Errorf("release %d: %v, want %v", i, kind, want)
		}
	}
	for _, n := range []int{0, 65} {
		_, err := c.AcquireAll(c.ctx, &api.AcquireAllRequest{Attempts: make([]*api.AcquireRequest, n)})
		_, ended := c.ReleaseAll(c.ctx, &api.ReleaseAllRequest{Ids: make([]*api.ID, n)})
		if message.ReasonOf(err).GetKind() != api.Reason_KIND_INVALID || message.ReasonOf(ended).GetKind() != api.Reason_KIND_INVALID {
			t.Errorf("%d calls in one: %v, %v", n, err, ended)
		}
	}
	s.Drain()
	if _, err := c.AcquireAll(c.ctx, m); message.ReasonOf(err).GetKind() != api.Reason_KIND_DRAINING {
		t.Errorf("a server that is about to end: %v", err)
	}
	if ended, err := c.ReleaseAll(c.ctx, &api.ReleaseAllRequest{Ids: []*api.ID{m.GetAttempts()[0].GetId()}}); err != nil || len(ended.GetAnswers()) != 1 {
		t.Errorf("... and a release: %v, %v", ended, err)
	}
}

// Attempts over the rate of the caller are refused, each for itself. Releases have their own rate.
func TestServer_together_rate(t *testing.T) {
	_, web := limited(t, mem.New(), server.Limits{Calls: 10, Keeps: 5})
	c, ctx := memberOf(web, "a"), t.Context()
	m, ids := &api.AcquireAllRequest{}, &api.ReleaseAllRequest{}
	for i := range 20 {
		r := message.Request(attempt(fmt.Sprint(i)))
		m.Attempts, ids.Ids = append(m.Attempts, r), append(ids.Ids, r.GetId())
	}
	got, err := c.AcquireAll(ctx, m)
	if err != nil {
		t.Fatal(err)
	}
	granted, over := 0, 0
	for _, a := range got.GetAnswers() {
		if a.GetAnswer().GetGranted() {
			granted++
		}
		if a.GetReason().GetKind() == api.Reason_KIND_LIMITED {
			over++
		}
	}
	if granted < 10 || granted > 12 || granted+over != 20 {
		t.Errorf("%d granted and %d over the rate, want 10 and 10", granted, over)
	}
	ended, err := c.ReleaseAll(ctx, ids)
	if err != nil {
		t.Fatal(err)
	}
	over = 0
	for _, a := range ended.GetAnswers() {
		if a.GetReason().GetKind() == api.Reason_KIND_LIMITED {
			over++
		}
	}
	if over < 13 || over > 15 {
		t.Errorf("%d releases over the rate, want 15", over)
	}
}
