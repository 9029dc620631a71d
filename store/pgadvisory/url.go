package pgadvisory

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

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
	remaining, opt, secure, err := parse(text)
	if err != nil {
		return nil, err
	}
	config, err := pgx.ParseConfig(remaining)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrURL, err) // pgx redacts passwords
	}
	secure.Apply(&config.Config)
	return New(ctx, config, opt)
}

// parse removes the keys that are not pgx's from a URL.
func parse(text string) (remaining string, opt *Options, secure *pgurl.Security, err error) {
	base, query, _ := strings.Cut(text, "?")
	if !strings.HasPrefix(base, "postgres://") && !strings.HasPrefix(base, "postgresql://") {
		return "", nil, nil, fmt.Errorf("%w: it begins with postgres:// or postgresql://", ErrURL)
	}
	opt, secure = &Options{}, &pgurl.Security{}
	var seen, kept []string
	for param := range strings.SplitSeq(query, "&") {
		key, raw, _ := strings.Cut(param, "=")
		if slices.Contains(seen, key) {
			return "", nil, nil, fmt.Errorf("%w: %.64q is in it twice", ErrURL, key)
		}
		if param != "" {
			seen = append(seen, key)
		}
		value, err := url.QueryUnescape(raw)
		known := strings.HasPrefix(key, "lock_")
		switch {
		case err != nil:
			err = fmt.Errorf("%.64q is not well written", key)
		case known:
			err = opt.set(key, value)
		default:
			known, err = secure.Set(key, value)
		}
		if !known && param != "" {
			kept = append(kept, param)
		}
		if err != nil {
			return "", nil, nil, fmt.Errorf("%w: %w", ErrURL, err)
		}
	}
	kept, err = secure.Keys(pgurl.Writable(base, kept), seen)
	if err != nil {
		return "", nil, nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	if remaining = base; len(kept) > 0 {
		remaining += "?" + strings.Join(kept, "&")
	}
	if err := opt.complete(); err != nil {
		return "", nil, nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	return remaining, opt, secure, nil
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
