package server

import (
	"context"
	"iter"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/server/access"
)

// A guard is the store as the callers of a server have it: each call is checked against the
// permissions of the identity in its ctx, and recorded in the audit. A ctx without an identity may
// do nothing. So no service of the server can forget the check.
type guard struct {
	driver.Forward
	*Server
}

// Acquire grants or refuses a claim to a caller that may acquire the name.
func (g *guard) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	if err := g.request(ctx, &r); err != nil {
		return driver.Result{}, err
	}
	res, err := g.Store.Acquire(ctx, r)
	g.acquired(ctx, r.ID, res.Granted, res.Fence, err)
	return res, err
}

// Renew renews a claim of a caller that may acquire the name.
func (g *guard) Renew(ctx context.Context, r driver.Renewal) (int, error) {
	out := g.RenewAll(ctx, []driver.Renewal{r})
	return out[0].Behind, out[0].Err
}

// RenewAll renews the claims whose names the caller may acquire.
func (g *guard) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	out := make([]driver.Renewed, len(rs))
	send, at := make([]driver.Renewal, 0, len(rs)), make([]int, 0, len(rs))
	for i, r := range rs {
		if out[i].Err = g.renewal(ctx, &r); out[i].Err == nil {
			send, at = append(send, r), append(at, i)
		}
	}
	if len(send) == 0 {
		return out
	}
	for n, r := range driver.RenewAll(ctx, g.Store, send) {
		out[at[n]] = r
	}
	return out
}

// Release ends a claim of a caller that may acquire the name.
func (g *guard) Release(ctx context.Context, id driver.ID) error {
	if _, err := g.permit(ctx, access.Acquire, id.Key); err != nil {
		return err
	}
	err := g.Store.Release(ctx, id)
	g.released(ctx, id, err)
	return err
}

// Show returns the claims on a key as the caller may see them.
func (g *guard) Show(ctx context.Context, key string) ([]driver.Claim, error) {
	id, to := access.FromContext(ctx), about(key)
	_, acquires := to.permission(id, access.Acquire)
	_, observes := to.permission(id, access.Observe)
	if !acquires && !observes {
		return nil, g.deny(ctx, access.Observe, to)
	}
	claims, err := driver.Show(ctx, g.Store, key)
	return filtered(id, claims), err
}

// filtered returns the claims that an identity may see.
func filtered(id *access.Identity, claims []driver.Claim) (out []driver.Claim) {
	for _, c := range claims {
		if c, ok := visible(id, c); ok {
			out = append(out, c)
		}
	}
	return out
}

// List yields the claims that the caller may see. Probes are never listed.
func (g *guard) List(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error] {
	id := access.FromContext(ctx)
	return func(yield func(driver.Claim, error) bool) {
		if !id.MayAny(access.Acquire) && !id.MayAny(access.Observe) {
			yield(driver.Claim{}, g.deny(ctx, access.Observe, about(prefix)))
			return
		}
		for c, err := range driver.List(ctx, g.Store, prefix) {
			if err == nil {
				var ok bool
				if c, ok = visible(id, c); !ok || about(c.Key).is == probe {
					continue
				}
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

// Watch watches a key for a caller that may acquire or observe it.
func (g *guard) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	caller, to := access.FromContext(ctx), about(id.Key)
	_, acquires := to.permission(caller, access.Acquire)
	_, observes := to.permission(caller, access.Observe)
	if !acquires && !observes {
		_ = g.deny(ctx, access.Observe, to)
		return nil
	}
	return driver.Watch(ctx, g.Store, id)
}

// Break ends claims for a caller that may break the name, if that can be recorded.
func (g *guard) Break(ctx context.Context, key string, upTo uint64, reason string) ([]driver.Claim, error) {
	if _, err := g.permit(ctx, access.Break, key); err != nil {
		return nil, err
	}
	if err := g.begin(ctx, about(key), reason); err != nil {
		return nil, err
	}
	claims, err := driver.Break(ctx, g.Store, key, upTo, reason)
	g.broken(ctx, about(key), reason, claims, err)
	for i := range claims {
		if _, may := about(key).permission(access.FromContext(ctx), access.Acquire); !may {
			claims[i].Value = nil
		}
	}
	return claims, err
}

// Losses is not for callers.
func (g *guard) Losses(context.Context) <-chan []driver.ID { return nil }

// Inspect returns what the store knows about itself, and whether the audit works.
func (g *guard) Inspect(ctx context.Context) (driver.Info, error) {
	info, err := driver.Inspect(ctx, g.Store)
	if failed := g.opt.Audit.Err(); failed != nil {
		info.Findings = append(info.Findings, driver.Finding{
			Level: driver.LevelWarning, What: "the lock server cannot write its audit",
			Means: "what clients do is not recorded, and nobody breaks locks",
			Cure:  "look at the log of the server",
		})
	}
	return info, err
}
