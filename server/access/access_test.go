package access_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/distlock/distlock/server/access"
)

func TestIdentity(t *testing.T) {
	id := &access.Identity{Name: "token:ci", Permissions: []access.Permission{
		{Names: "team-a/", Verbs: access.Acquire, MaxTTL: time.Minute, MaxKeep: time.Minute},
		{Names: "team-a/", Verbs: access.Observe},
		{Names: "team-a/long/", Verbs: access.Acquire, MaxTTL: time.Hour},
		{Names: "deploy", Verbs: access.Acquire | access.Break},
	}}
	for _, tt := range []struct {
		verb access.Verb
		name string
		may  bool
		ttl  time.Duration
	}{
		{access.Acquire, "team-a/x", true, time.Minute},
		{access.Acquire, "team-a/long/x", true, time.Hour},
		{access.Observe, "team-a/long/x", true, 0},
		{access.Acquire, "team-a", false, 0},
		{access.Acquire, "team-ab/x", false, 0},
		{access.Break, "team-a/x", false, 0},
		{access.Acquire | access.Observe, "team-a/x", false, 0}, // no permission has both
		{access.Break, "deploy", true, 0},
		{access.Break, "deploy/x", false, 0},
		{access.Acquire, "", false, 0},
	} {
		p, may := id.Find(tt.verb, tt.name)
		if may != tt.may || p.MaxTTL != tt.ttl || id.May(tt.verb, tt.name) != may {
			t.Errorf("%v %q: %v, %+v", tt.verb, tt.name, may, p)
		}
	}
	if p, _ := id.Find(access.Acquire, "team-a/long/x"); p.MaxKeep != 0 {
		t.Errorf("the longest life of a record is %v, and one permission has none", p.MaxKeep)
	}
	if id.MayAll(access.Acquire) || !id.MayAny(access.Break) || !access.Everything("x").MayAll(access.All) {
		t.Error("all and any")
	}
	nobody := access.FromContext(context.Background())
	if nobody.MayAny(access.Acquire) || nobody.MayAny(access.Observe) || nobody.Name != "nobody" {
		t.Errorf("without an identity: %+v", nobody)
	}
	if got := access.FromContext(access.WithIdentity(context.Background(), id)); got != id {
		t.Errorf("with one: %+v", got)
	}
}

func TestParseVerbs(t *testing.T) {
	for _, v := range []access.Verb{access.Acquire, access.Observe | access.Break, access.All} {
		if got, err := access.ParseVerbs(v.String()); err != nil || got != v {
			t.Errorf("%v: %v, %v", v, got, err)
		}
	}
	for _, text := range []string{"", "none", "acquire,", "Acquire"} {
		if got, err := access.ParseVerbs(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func ExampleIdentity_May() {
	ci := &access.Identity{Name: "token:ci", Permissions: []access.Permission{
		{Names: "team-a/", Verbs: access.Acquire | access.Observe},
	}}
	fmt.Println(ci.May(access.Acquire, "team-a/deploy"))
	fmt.Println(ci.May(access.Break, "team-a/deploy"))
	fmt.Println(ci.May(access.Acquire, "team-b/deploy"))
	// Output:
	// true
	// false
	// false
}
