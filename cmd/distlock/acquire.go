package main

import (
	"encoding/json"
	"fmt"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/distlock/distlock"
)

func (a *app) acquire() *cobra.Command {
	k := &ask{}
	var asJSON bool
	c := &cobra.Command{
		Use:               "acquire NAME",
		Short:             "Take a lock and print its handle, the secret that renews and releases it",
		Example:           "  h=$(distlock acquire deploy --ttl 10m) && ./deploy.sh; echo \"$h\" | distlock release -",
		Args:              exact("NAME"),
		ValidArgsFunction: a.completeNames,
	}
	k.flags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.RunE = func(c *cobra.Command, args []string) error {
		l, err := a.locker(c)
		if err != nil {
			return err
		}
		switch {
		case a.private():
			return usage("the store is forgotten when this command ends: acquire needs one that stays")
		case !a.source.Store.Features().Detached:
			return usage("the locks of this store end with the connection that holds them, so a command cannot leave one behind: take it with run, or use a store whose locks have a lease")
		}
		if err := k.check(a); err != nil {
			return err
		}
		opts, err := k.options(a)
		if err != nil {
			return err
		}
		notify(make(chan os.Signal, 1), syscall.SIGPIPE) // a reader that has gone must not end us before the lock is given back
		ctx, stop := interruptible(c.Context())
		defer stop()
		lease, err := k.take(ctx, l, args[0], opts)
		if err != nil {
			return err
		}
		mode := lease.Mode()
		h, err := lease.Handle(ctx)
		if err != nil {
			_ = lease.Unlock(c.Context())
			return err
		}
		if err := a.printHandle(h, mode, k.holder, asJSON); err != nil {
			// Nobody has the handle: the lock must not stay taken.
			if again, e := l.Attach(c.Context(), h); e == nil {
				_ = again.Unlock(c.Context())
			}
			return &exitError{exitFailed, fmt.Errorf("the handle could not be written, the lock was given back: %w", err)}
		}
		return nil
	}
	return c
}

// private reports whether the store is the memory of this process.
func (a *app) private() bool { return a.source.Store.Features().Name == "mem" }

func (a *app) printHandle(h distlock.Handle, mode distlock.Mode, holder string, asJSON bool) error {
	if !asJSON {
		_, err := fmt.Fprintln(a.out, h.Text())
		return err
	}
	return json.NewEncoder(a.out).Encode(struct {
		Name   string        `json:"name"`
		Handle string        `json:"handle"`
		Fence  uint64        `json:"fence"`
		Mode   distlock.Mode `json:"mode"`
		Holder string        `json:"holder"`
		TTL    float64       `json:"ttl"`
	}{h.Name(), h.Text(), h.Fence(), mode, holder, h.TTL().Seconds()})
}
