package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/distlock/distlock/open"
)

// migrateLimit bounds the time of a migration, which includes the wait for another migration that
// runs at the same time.
const migrateLimit = time.Minute

func (a *app) migrate() *cobra.Command {
	var show bool
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Create the tables of a store, or bring them up to date",
		Long: "Create the tables of a store, or bring them and their functions up to date. It is safe " +
			"to run migrate again, and to run several at once: locks stay held. A store creates its " +
			"tables by itself if its role may; migrate is for roles that may not, and for new " +
			"versions. With --print it prints the SQL instead, which is also safe to run again.",
		Example: "  distlock migrate --store postgres://admin@db/app\n" +
			"  distlock migrate --store postgres://db/app --print | psql -v ON_ERROR_STOP=1 app",
		Args: exact(),
	}
	c.Flags().BoolVar(&show, "print", false, "print the SQL and change nothing")
	c.RunE = func(c *cobra.Command, _ []string) error {
		url, err := a.address(c)
		if err != nil {
			return err
		}
		if show {
			sql, err := open.Migration(url)
			if err != nil {
				return noSchema(err)
			}
			_, err = fmt.Fprint(a.out, sql)
			return err
		}
		ctx, cancel := context.WithTimeout(c.Context(), migrateLimit)
		defer cancel()
		from, to, err := open.Migrate(ctx, url)
		switch {
		case errors.Is(err, errors.ErrUnsupported), errors.Is(err, open.ErrURL):
			return noSchema(err)
		case err != nil:
			return &exitError{exitUnavailable, err}
		}
		_, err = fmt.Fprintln(a.out, migrated(from, to))
		return err
	}
	return c
}

// noSchema returns the error for a URL whose store has no tables.
func noSchema(err error) error {
	if errors.Is(err, errors.ErrUnsupported) {
		err = fmt.Errorf("%w: give the URL of a PostgreSQL or a MariaDB with --store", err)
	}
	return &exitError{exitUsage, err}
}

// migrated returns a message about the migration. In a version, the number before the dot is the
// version of the tables.
func migrated(from, to string) string {
	tables := func(version string) string { v, _, _ := strings.Cut(version, "."); return v }
	switch {
	case from == to:
		return fmt.Sprintf("already at version %s", to)
	case from == "":
		return fmt.Sprintf("created, version %s", to)
	case tables(from) == tables(to):
		return fmt.Sprintf("replaced the functions: from version %s to %s", from, to)
	}
	return fmt.Sprintf("migrated from version %s to %s", from, to)
}
