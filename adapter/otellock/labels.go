package otellock

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/distlock/distlock"
)

const (
	maxGroups = 100     // a program with more groups uses names as groups
	other     = "other" // the group of all further names
)

// A label has the attributes of one store and group. They are created once, so an event allocates
// no memory for them.
type label struct {
	store    *storeLabel
	acquired [len(modes)][len(outcomes)][]metric.RecordOption
	held     [len(modes)][len(ends)][]metric.RecordOption
	margin   []metric.RecordOption
	leases   [len(modes)][]metric.AddOption
	waiters  [len(modes)][]metric.AddOption
	lost     [len(reasons)][]metric.AddOption
}

// A storeLabel has the attributes of one store, for all groups.
type storeLabel struct {
	renewals [len(renewOutcomes)][]metric.RecordOption
	errors   [len(ops)][len(failures)][]metric.AddOption
}

// labels has all labels. Readers take no mutex: add stores a changed copy of the map.
type labels struct {
	group func(key string) string
	begin func(*label) // called for every new label
	known atomic.Pointer[known]
	mu    sync.Mutex // for add
}

type known struct {
	labels map[site]*label
	groups map[string]bool
}

// A site is the key of a label.
type site struct{ store, group string }

func newLabels(group func(string) string, begin func(*label)) *labels {
	l := &labels{group: group, begin: begin}
	l.known.Store(&known{labels: map[site]*label{}, groups: map[string]bool{}})
	return l
}

// of returns the label of an event.
func (l *labels) of(e *distlock.Event) *label {
	at := site{store: e.Store}
	if l.group != nil {
		at.group = l.group(e.Name)
	}
	k := l.known.Load()
	if at = k.cap(at); k.labels[at] != nil {
		return k.labels[at]
	}
	return l.add(at)
}

// cap replaces a group beyond maxGroups with the group other.
func (k *known) cap(at site) site {
	if at.group != "" && !k.groups[at.group] && len(k.groups) >= maxGroups {
		at.group = other
	}
	return at
}

// add creates a label, unless another goroutine has created it meanwhile.
func (l *labels) add(at site) *label {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.known.Load()
	if at = k.cap(at); k.labels[at] != nil {
		return k.labels[at]
	}
	next := &known{labels: maps.Clone(k.labels), groups: k.groups}
	if at.group != "" && at.group != other && !k.groups[at.group] {
		next.groups = maps.Clone(k.groups)
		next.groups[at.group] = true
	}
	n := newLabel(at)
	for p, o := range k.labels {
		if p.store == at.store {
			n.store = o.store
		}
	}
	if n.store == nil {
		n.store = newStoreLabel(at.store)
	}
	next.labels[at] = n
	l.begin(n)
	l.known.Store(next)
	return n
}

func newLabel(at site) *label {
	base := []attribute.KeyValue{attribute.String("store", at.store)}
	if at.group != "" {
		base = append(base, attribute.String("group", strings.ToValidUTF8(at.group, "\uFFFD")))
	}
	n := &label{margin: record(base)}
	for m, mode := range modes {
		n.leases[m] = add(base, "mode", mode)
		n.waiters[m] = add(base, "mode", mode)
		for i, v := range outcomes {
			n.acquired[m][i] = record(base, "mode", mode, "outcome", v)
		}
		for i, v := range ends {
			n.held[m][i] = record(base, "mode", mode, "end", v)
		}
	}
	for i, v := range reasons {
		n.lost[i] = add(base, "reason", v)
	}
	return n
}

func newStoreLabel(store string) *storeLabel {
	base := []attribute.KeyValue{attribute.String("store", store)}
	s := new(storeLabel)
	for i, v := range renewOutcomes {
		s.renewals[i] = record(base, "outcome", v)
	}
	for i, op := range ops {
		for j, kind := range failures {
			s.errors[i][j] = add(base, "op", op, "kind", kind)
		}
	}
	return s
}

func record(base []attribute.KeyValue, pairs ...string) []metric.RecordOption {
	return []metric.RecordOption{metric.WithAttributeSet(set(base, pairs))}
}

func add(base []attribute.KeyValue, pairs ...string) []metric.AddOption {
	return []metric.AddOption{metric.WithAttributeSet(set(base, pairs))}
}

// set returns a set of base and of pairs of names and values.
func set(base []attribute.KeyValue, pairs []string) attribute.Set {
	all := append([]attribute.KeyValue(nil), base...)
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, attribute.String(pairs[i], pairs[i+1]))
	}
	return attribute.NewSet(all...)
}
