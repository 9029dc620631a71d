package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/distlock/distlock/open"
)

// migrateLimit bounds how long a migration may take. Another that runs at the same time is waited for.
const migrateLimit = time.Minute

func (a *app) migrate() *cobra.Command {
	var show bool
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Create the tables of a store, or bring them up to date",
		Long: "Create the tables of a store, or bring them up to date. It may be run again, and by many at once. " +
			"A store creates its tables itself if its role may: this is for roles that may not, and for new versions.",
		Example: "  distlock migrate --store postgres://admin@db/app\n  distlock migrate --store postgres://admin@db/app --print | psql app",
		Args:    exact(),
	}
	c.Flags().BoolVar(&show, "print", false, "print the SQL for an empty database, and do nothing")
	c.RunE = func(c *cobra.Command, _ []string) error {
		url, err := a.address(c)
		if err != nil {
			return err
		}
		if show {
			sql, err := open.Migration(url)
			if err == nil {
				_, err = fmt.Fprint(a.out, sql)
			}
			return err
		}
		ctx, cancel := context.WithTimeout(c.Context(), migrateLimit)
		defer cancel()
		from, to, err := open.Migrate(ctx, url)
		switch {
		case errors.Is(err, errors.ErrUnsupported), errors.Is(err, open.ErrURL):
			return &exitError{exitUsage, err}
		case err != nil:
			return &exitError{exitUnavailable, err}
		case from == to:
			_, err = fmt.Fprintf(a.out, "version %d is there already\n", to)
		case from == 0:
			_, err = fmt.Fprintf(a.out, "created, version %d\n", to)
		default:
			_, err = fmt.Fprintf(a.out, "brought from version %d to %d\n", from, to)
		}
		return err
	}
	return c
}
