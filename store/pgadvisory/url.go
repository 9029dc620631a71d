package pgadvisory

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/distlock/distlock/internal/pgurl"
)

// ErrURL reports that a URL is invalid, or that the server speaks another protocol than the URL
// names.
var ErrURL = errors.New("pgadvisory: bad URL")

// Open returns a store on the server that a URL names, such as
// postgres://user:password@host:5432/database?lock_mode=advisory. The query may have lock_mode
// (advisory), lock_conns, lock_waits, lock_schema and lock_unfenced (true or false) as described in
// [Options], tls_ca, tls_cert, tls_key (files), tls_server_name, tls_skip_verify (true or false),
// and the parameters of pgx and the server. With several hosts the default of target_session_attrs
// is read-write. Errors show no password.
func Open(ctx context.Context, text string) (*Store, error) {
	opt := &Options{}
	u, err := pgurl.Parse(text, opt.set)
	if err == nil {
		err = opt.complete()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	config, err := pgx.ParseConfig(u.Text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrURL, err) // pgx redacts passwords
	}
	u.Apply(&config.Config)
	return New(ctx, config, opt)
}

// set reads one key of a URL.
func (o *Options) set(key, value string) (err error) {
	switch key {
	case "lock_mode":
		if value != "advisory" {
			return fmt.Errorf("lock_mode is %.64q, want advisory", value)
		}
	case "lock_schema":
		o.Schema = value
	case "lock_conns":
		o.Conns, err = strconv.Atoi(value)
	case "lock_waits":
		o.Waits, err = strconv.Atoi(value)
	case "lock_unfenced":
		o.Unfenced, err = strconv.ParseBool(value)
	default:
		return fmt.Errorf("%.64q is not known: there are lock_mode, lock_conns, lock_waits, lock_schema and lock_unfenced", key)
	}
	if err != nil {
		return fmt.Errorf("%s is %.64q", key, value)
	}
	return nil
}
