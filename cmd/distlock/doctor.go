package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/distlock/distlock/driver"
)

// doctorLimit bounds the whole visit, so that a store that answers now and then does not keep the user.
const doctorLimit = 30 * time.Second

// A visit is what doctor finds out.
type visit struct {
	Store     string    `json:"store"` // its URL without secrets
	Reachable bool      `json:"reachable"`
	Error     string    `json:"error,omitempty"` // why it could not be reached
	Version   string    `json:"version,omitempty"`
	Age       float64   `json:"age,omitempty"` // for how long it has remembered claims, in seconds
	Features  *features `json:"features,omitempty"`
	Virtual   bool      `json:"virtual_host"` // this host is a virtual machine, and the store may be elsewhere
	Speed     *speed    `json:"speed,omitempty"`
	Findings  []finding `json:"findings"`
}

// features are what a store can do. TTLs are in seconds; 0 is no bound.
type features struct {
	Fence    bool    `json:"fence"`
	Count    bool    `json:"count"`
	Queue    bool    `json:"queue"`
	Value    bool    `json:"value"`
	Keep     bool    `json:"keep"`
	Expiry   bool    `json:"expiry"`
	Detached bool    `json:"detached"`
	MinTTL   float64 `json:"min_ttl"`
	MaxTTL   float64 `json:"max_ttl"`
}

// A finding is a driver.Finding as doctor prints it.
type finding struct {
	Level string `json:"level"`
	What  string `json:"what"`
	Means string `json:"means,omitempty"`
	Cure  string `json:"cure,omitempty"`
}

func (a *app) doctor() *cobra.Command {
	var asJSON, strict bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Tell what the store can do, and what about it endangers locks",
		Long: `Look at the store: what it is, what it can and cannot do, and what about it endangers locks, each finding with what follows
from it and how to mend it. What this user may not look at is unknown, and not fine. Then take, renew and give back a lock
under a name of its own.

It exits with 0 if nothing endangers locks, with 1 if something does, and with 69 if the store cannot be reached.`,
		Example: "  distlock doctor\n  distlock doctor --strict --json",
		Args:    exact(),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.Flags().BoolVar(&strict, "strict", false, "exit with 1 for warnings and for what is unknown, too")
	c.RunE = func(c *cobra.Command, _ []string) error {
		v := &visit{Findings: []finding{}}
		err := a.examine(c, v)
		if err != nil && exitCode(err) != exitUnavailable {
			return err
		}
		if err != nil {
			v.Error = a.tidy(strings.TrimPrefix(err.Error(), driver.ErrUnavailable.Error()+": "))
		}
		if asJSON {
			err = json.NewEncoder(a.out).Encode(v)
		} else {
			err = a.printVisit(v)
		}
		if err != nil {
			return err
		}
		return v.verdict(strict)
	}
	return c
}

// verdict is how the command ends. All has been said.
func (v *visit) verdict(strict bool) error {
	if !v.Reachable {
		return &exitError{exitUnavailable, nil}
	}
	for _, f := range v.Findings {
		if f.Level == driver.Danger.String() || strict && f.Level != driver.OK.String() {
			return &exitError{exitFound, nil}
		}
	}
	return nil
}

// examine fills in a visit. An error says that the store could not be reached, or that the command cannot be meant.
func (a *app) examine(c *cobra.Command, v *visit) error {
	signals, stop := interruptible(c.Context())
	defer stop()
	ctx, cancel := context.WithTimeout(signals, doctorLimit)
	defer cancel()
	url, err := a.address(c)
	if err != nil {
		return err
	}
	v.Store = a.tidy(url)
	if _, err := a.connect(ctx, url); err != nil {
		return a.unfit(v, nil, err)
	}
	s := a.source.Store
	v.Features = featuresOf(s.Features())
	v.Virtual = virtual() && !local(url)
	info, err := driver.Inspect(ctx, s)
	if signals.Err() != nil {
		return context.Cause(signals)
	}
	blind := errors.Is(err, errors.ErrUnsupported)
	if err != nil && !blind {
		return a.unfit(v, a.source.Findings, &exitError{exitUnavailable, err})
	}
	v.Version, v.Age = info.Version, info.Age.Seconds()
	all := slices.Concat(a.config.findings(), a.source.Findings, info.Findings)
	if blind {
		all = append(all, driver.Finding{
			What: "the store tells nothing about itself", Means: "nobody knows what a crash does to claims", Cure: "look at its own tools",
		})
	}
	p := newProbe(s)
	p.known = slices.ContainsFunc(info.Findings, func(f driver.Finding) bool { return f.Level != driver.OK && strings.HasPrefix(f.Means, asksAgain) })
	p.run(ctx)
	if signals.Err() != nil {
		return context.Cause(signals)
	}
	v.Reachable = !blind || p.granted
	v.Speed = p.speed()
	a.enter(v, append(all, p.findings...))
	if !v.Reachable {
		return &exitError{exitUnavailable, p.err}
	}
	return nil
}

// findings are what is to be said of the files that name the store.
func (c *config) findings() []driver.Finding {
	var all []driver.Finding
	for _, path := range c.shared {
		all = append(all, driver.Finding{
			Level: driver.Warning, What: "the group of " + path + " may write to it",
			Means: "whoever is in the group can choose another store, which excludes nobody", Cure: "chmod g-w it",
		})
	}
	return all
}

// unfit is for a store that answers, and cannot be used as it is: its error says what is the matter, and the cure. Any other error is returned.
func (a *app) unfit(v *visit, way []driver.Finding, err error) error {
	var told interface {
		error
		Finding() driver.Finding
	}
	if !errors.As(err, &told) {
		return err
	}
	v.Reachable = true
	a.enter(v, append(slices.Clone(way), told.Finding()))
	return nil
}

// enter writes down what was found, what is worst first.
func (a *app) enter(v *visit, all []driver.Finding) {
	slices.SortStableFunc(all, func(x, y driver.Finding) int { return cmp.Compare(urgency(x.Level), urgency(y.Level)) })
	for _, f := range all {
		v.Findings = append(v.Findings, finding{f.Level.String(), a.tidy(f.What), a.tidy(f.Means), a.tidy(f.Cure)})
	}
}

// local reports whether the store is on this host, and stands still with it.
func local(url string) bool {
	scheme, _, _ := strings.Cut(url, ":")
	return scheme == "sqlite" || scheme == "memory"
}

// virtual reports whether this host is a virtual machine, as far as Linux says.
func virtual() bool {
	info, err := os.ReadFile("/proc/cpuinfo")
	return err == nil && bytes.Contains(info, []byte(" hypervisor"))
}

// urgency is the place of a level in the list: what endangers locks first, what is fine last.
func urgency(l driver.Level) int {
	return slices.Index([]driver.Level{driver.Danger, driver.Warning, driver.Unknown, driver.OK}, l)
}

// tidy makes a text one line without secrets, fit for a terminal.
func (a *app) tidy(s string) string {
	return clean(oneLine(a.redact(s)))
}

func featuresOf(f driver.Features) *features {
	return &features{f.Fence, f.Count, f.Queue, f.Value, f.Keep, f.Expiry, f.Detached, f.MinTTL.Seconds(), f.MaxTTL.Seconds()}
}

// An ability is what a feature is for, and what is refused without it.
type ability struct {
	has     bool
	can     string
	without string
}

func (f *features) abilities() []ability {
	return []ability{
		{f.Fence, "fences", "number its grants: a resource cannot refuse a late writer (--require-fence is refused)"},
		{f.Queue, "a line", "keep a line: whoever asks first after a release is next"},
		{f.Count, "counting", "count: no semaphores and no rate limits"},
		{f.Value, "values and labels", "store values, notes and labels"},
		{f.Keep, "records", "keep records: nothing is done at most once"},
		{f.Expiry, "ending claims by itself", "end a claim while its process lives"},
		{f.Detached, "claims that outlive their process", "keep a claim when its process ends: no acquire, renew and release"},
	}
}

// ttls tells which TTLs the store takes.
func (f *features) ttls() string {
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	switch {
	case f.MinTTL > 0 && f.MaxTTL > 0:
		return fmt.Sprintf("%v to %v", seconds(f.MinTTL), seconds(f.MaxTTL))
	case f.MaxTTL > 0:
		return fmt.Sprintf("up to %v", seconds(f.MaxTTL))
	case f.MinTTL > 0:
		return fmt.Sprintf("%v and longer", seconds(f.MinTTL))
	}
	return "any"
}
