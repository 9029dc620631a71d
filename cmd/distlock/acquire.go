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
	k := &lockFlags{}
	var asJSON bool
	c := &cobra.Command{
		Use:               "acquire NAME",
		Short:             "Acquire a lock and print its handle, the secret that renews and releases it",
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
			return usage("the store lives in the memory of this command and ends with it: " +
				"acquire needs a store that stays")
		case !a.source.Store.Features().Detached:
			return usage("a lock of this store ends with the connection that holds it, so acquire cannot keep one: " +
				"use run, or a store whose locks have a lease")
		}
		if err := k.check(a); err != nil {
			return err
		}
		opts, err := k.options(a)
		if err != nil {
			return err
		}
		// If the reader of the output has gone, SIGPIPE must not end the process before the lock
		// is released.
		notify(make(chan os.Signal, 1), syscall.SIGPIPE)
		ctx, stop := interruptible(c.Context())
		defer stop()
		lease, err := k.acquire(ctx, l, args[0], opts)
		if err != nil {
			return err
		}
		mode := lease.Mode()
		h, err := lease.Detach(ctx)
		if err != nil {
			_ = lease.Unlock(c.Context())
			return err
		}
		if err := a.printHandle(h, mode, k.holder, asJSON); err != nil {
			// Nobody has the handle, so nobody else can release the lock.
			if again, e := l.Attach(c.Context(), h); e == nil {
				_ = again.Unlock(c.Context())
			}
			return &exitError{exitFailed, fmt.Errorf("the handle could not be written, the lock was released: %w", err)}
		}
		return nil
	}
	return c
}

// private reports whether the store is the memory of this process.
func (a *app) private() bool { return a.source.Store.Features().Name == "mem" }

func (a *app) printHandle(h distlock.Handle, mode distlock.Mode, holder string, asJSON bool) error {
	if !asJSON {
		_, err := fmt.Fprintln(a.out, h.Secret())
		return err
	}
	return json.NewEncoder(a.out).Encode(struct {
		Name   string        `json:"name"`
		Handle string        `json:"handle"`
		Fence  uint64        `json:"fence"`
		Mode   distlock.Mode `json:"mode"`
		Holder string        `json:"holder"`
		TTL    float64       `json:"ttl"`
	}{h.Name(), h.Secret(), h.Fence(), mode, holder, h.TTL().Seconds()})
}
