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

// doctorLimit bounds the whole examination, also for a store that answers only some of the calls.
const doctorLimit = 30 * time.Second

// A diagnosis is the result of doctor.
type diagnosis struct {
	Store     string    `json:"store"` // the URL without secrets
	Reachable bool      `json:"reachable"`
	Error     string    `json:"error,omitempty"` // why the store could not be reached
	Version   string    `json:"version,omitempty"`
	Age       float64   `json:"age,omitempty"` // for how long the store has remembered claims, in seconds
	Features  *features `json:"features,omitempty"`
	Virtual   bool      `json:"virtual_host"` // this host is a virtual machine, and the store may be on another host
	Speed     *speed    `json:"speed,omitempty"`
	Findings  []finding `json:"findings"`
}

// features are those of a store. TTLs are in seconds; 0 is no bound.
type features struct {
	Fence     bool    `json:"fence"`
	Count     bool    `json:"count"`
	Queue     bool    `json:"queue"`
	Value     bool    `json:"value"`
	Keep      bool    `json:"keep"`
	Expiry    bool    `json:"expiry"`
	Detached  bool    `json:"detached"`
	AnyServer bool    `json:"any_server"`
	MinTTL    float64 `json:"min_ttl"`
	MaxTTL    float64 `json:"max_ttl"`
}

// A finding is a [driver.Finding] as doctor prints it.
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
		Short: "Check a store: its features, and the settings that endanger locks",
		Long: `Check the store: its version, its features, and the settings that endanger locks. Each finding has
its consequence and a cure. A setting that this user may not read is reported as unknown, not as
fine. Then doctor acquires, renews and releases a lock under a name of its own.

doctor exits with 0 if nothing endangers locks, with 1 if something does, and with 69 if the store
cannot be reached.`,
		Example: "  distlock doctor\n  distlock doctor --strict --json",
		Args:    exact(),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.Flags().BoolVar(&strict, "strict", false, "exit with 1 also for warnings and unknown settings")
	c.RunE = func(c *cobra.Command, _ []string) error {
		v := &diagnosis{Findings: []finding{}}
		err := a.examine(c, v)
		if err != nil && exitCode(err) != exitUnavailable {
			return err
		}
		if err != nil {
			v.Error = a.printable(strings.TrimPrefix(err.Error(), driver.ErrUnavailable.Error()+": "))
		}
		if asJSON {
			err = json.NewEncoder(a.out).Encode(v)
		} else {
			err = a.printDiagnosis(v)
		}
		if err != nil {
			return err
		}
		return v.verdict(strict)
	}
	return c
}

// verdict returns the error with the exit code of the command. It has no message, because the
// diagnosis has been printed.
func (v *diagnosis) verdict(strict bool) error {
	if !v.Reachable {
		return &exitError{exitUnavailable, nil}
	}
	for _, f := range v.Findings {
		if f.Level == driver.LevelDanger.String() || strict && f.Level != driver.LevelOK.String() {
			return &exitError{exitFound, nil}
		}
	}
	return nil
}

// examine fills in a diagnosis. It returns an error if the store could not be reached, or if the
// command line or the configuration is wrong.
func (a *app) examine(c *cobra.Command, v *diagnosis) error {
	signals, stop := interruptible(c.Context())
	defer stop()
	ctx, cancel := context.WithTimeout(signals, doctorLimit)
	defer cancel()
	url, err := a.address(c)
	if err != nil {
		return err
	}
	v.Store = a.printable(url)
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
	opaque := errors.Is(err, errors.ErrUnsupported)
	if err != nil && !opaque {
		return a.unfit(v, a.source.Findings, &exitError{exitUnavailable, err})
	}
	v.Version, v.Age = info.Version, info.Age.Seconds()
	all := slices.Concat(a.config.findings(), a.source.Findings, info.Findings)
	if opaque {
		all = append(all, driver.Finding{
			What:  "the store reports nothing about itself",
			Means: "it is not known whether claims survive a crash", Cure: "use the tools of the store",
		})
	}
	p := newProbe(s)
	p.polls = slices.ContainsFunc(info.Findings, func(f driver.Finding) bool {
		return f.Level != driver.LevelOK && strings.HasPrefix(f.Means, waitersPoll)
	})
	p.run(ctx)
	if signals.Err() != nil {
		return context.Cause(signals)
	}
	v.Reachable = !opaque || p.granted
	v.Speed = p.speed()
	a.addFindings(v, append(all, p.findings...))
	if !v.Reachable {
		return &exitError{exitUnavailable, p.err}
	}
	return nil
}

// findings returns the findings about the files that name the store.
func (c *config) findings() []driver.Finding {
	var all []driver.Finding
	for _, path := range c.shared {
		all = append(all, driver.Finding{
			Level: driver.LevelWarning, What: "the group of " + path + " may write to it",
			Means: "every member of the group can choose another store, which excludes nobody", Cure: "chmod g-w it",
		})
	}
	return all
}

// unfit handles the error of a store that answers but cannot be used: the error itself is a finding
// with a cure. unfit returns any other error.
func (a *app) unfit(v *diagnosis, all []driver.Finding, err error) error {
	var unusable interface {
		error
		Finding() driver.Finding
	}
	if !errors.As(err, &unusable) {
		return err
	}
	v.Reachable = true
	a.addFindings(v, append(slices.Clone(all), unusable.Finding()))
	return nil
}

// addFindings adds findings to a diagnosis, the worst first.
func (a *app) addFindings(v *diagnosis, all []driver.Finding) {
	slices.SortStableFunc(all, func(x, y driver.Finding) int { return cmp.Compare(urgency(x.Level), urgency(y.Level)) })
	for _, f := range all {
		v.Findings = append(v.Findings, finding{
			f.Level.String(), a.printable(f.What), a.printable(f.Means), a.printable(f.Cure),
		})
	}
}

// local reports whether the store is on this host, and is therefore paused together with it.
func local(url string) bool {
	scheme, _, _ := strings.Cut(url, ":")
	return scheme == "sqlite" || scheme == "memory"
}

// virtual reports whether this host is a virtual machine, as far as Linux shows it.
func virtual() bool {
	info, err := os.ReadFile("/proc/cpuinfo")
	return err == nil && bytes.Contains(info, []byte(" hypervisor"))
}

// urgency returns the rank of a level: 0 for danger, and the highest for OK.
func urgency(l driver.Level) int {
	return slices.Index([]driver.Level{driver.LevelDanger, driver.LevelWarning, driver.LevelUnknown, driver.LevelOK}, l)
}

// printable returns a text as one line without secrets that is safe for a terminal.
func (a *app) printable(s string) string {
	return clean(oneLine(a.redact(s)))
}

func featuresOf(f driver.Features) *features {
	return &features{
		f.Fence, f.Count, f.Queue, f.Value, f.Keep, f.Expiry, f.Detached, f.AnyServer,
		f.MinTTL.Seconds(), f.MaxTTL.Seconds(),
	}
}

// An ability describes a feature.
type ability struct {
	has     bool
	can     string // the feature; "" if it is mentioned only where it is missing
	without string // the consequence if the store does not have it
}

func (f *features) abilities() []ability {
	return []ability{
		{f.Fence, "fencing tokens", "issue fencing tokens: a resource cannot reject a late writer (--require-fence is refused)"},
		{f.Queue, "a queue", "keep a queue: the first attempt after a release gets the lock"},
		{f.Count, "counting", "count: no semaphores and no rate limits"},
		{f.Value, "values and labels", "store values, notes and labels"},
		{f.Keep, "records", "keep records: no run-once"},
		{f.Expiry, "expiring claims", "expire a claim while its process lives"},
		{f.Detached, "claims that outlive their process", "keep a claim when its process ends: no acquire, renew and release"},
		{f.AnyServer, "", "serve one owner through two lock servers at the same time: " +
			"an attempt that one of them undoes late could end the lock that the other granted"},
	}
}

// ttls returns the range of TTLs that the store accepts.
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
