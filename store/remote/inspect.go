package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/message"
)

const (
	// maxSkew is the difference of two clocks that nobody notices. The time in an answer has no
	// fractions of a second.
	maxSkew = 5 * time.Second

	// renewBefore is how long before its end a certificate should have been renewed.
	renewBefore = 14 * 24 * time.Hour
)

// Inspect returns what the server's store knows about itself, with findings about each server of
// the URL: whether it answers and has the same store, its version, its clock, its certificate, and
// the identity of this client.
func (s *Store) Inspect(ctx context.Context) (driver.Info, error) {
	m, err := call(ctx, s, s.client.Inspect, &api.InspectRequest{})
	if err != nil {
		return driver.Info{}, err
	}
	info := message.InfoOf(m)
	info.Version += ", through a lock server"
	info.Findings = append(info.Findings, s.identity.findings()...)
	versions := map[string]string{} // to one server that has it
	for _, v := range s.servers {
		found, version := s.look(ctx, v)
		info.Findings = append(info.Findings, found...)
		if version != "" {
			versions[version] = v.addr
		}
	}
	if len(versions) > 1 {
		info.Findings = append(info.Findings, driver.Finding{
			Level: driver.LevelWarning, What: fmt.Sprintf("the lock servers have different versions: %v", versions),
			Means: "a client may get another answer from each", Cure: "give all of them one version",
		})
	}
	return info, nil
}

// A witness sends the requests of a store with one server, and keeps the last answer.
type witness struct {
	sender
	answer *http.Response
	sent   time.Time
}

// Do sends a request.
func (w *witness) Do(r *http.Request) (*http.Response, error) {
	w.sent = time.Now()
	resp, err := w.sender.Do(r)
	if err == nil {
		w.answer = resp
	}
	return resp, err
}

// look calls one server.
func (s *Store) look(ctx context.Context, v *server) (found []driver.Finding, version string) {
	alone := &Store{servers: []*server{v}, token: s.token}
	alone.identity.id, alone.identity.pinned = s.identity.now(), true
	w := &witness{sender: sender{alone}}
	client := api.NewLocksClient(w, "http://distlock", connect.WithAcceptCompression("gzip", nil, nil))
	m, err := call(ctx, alone, client.Info, &api.LocksInfoRequest{})
	var other *OtherStoreError
	switch {
	case errors.As(err, &other):
		return []driver.Finding{{
			Level: driver.LevelDanger, What: fmt.Sprintf("the lock server %s has another store, %s", v.addr, other.Found),
			Means: "clients of this server and of the others do not exclude each other",
			Cure:  "give all servers of the URL one store, or remove this server from the URL",
		}}, ""
	case err != nil:
		return []driver.Finding{{
			Level: driver.LevelWarning, What: fmt.Sprintf("the lock server %s does not answer: %v", v.addr, err),
			Means: "one server less can fail", Cure: "start it, or remove it from the URL",
		}}, ""
	}
	found = []driver.Finding{{Level: driver.LevelOK, What: fmt.Sprintf(
		"the lock server %s, version %s, has the same store, and this client is %s", v.addr, m.GetVersion(), m.GetIdentity())}}
	if m.GetDraining() {
		found = append(found, driver.Finding{
			Level: driver.LevelWarning, What: fmt.Sprintf("the lock server %s is about to end", v.addr),
			Means: "it grants no locks", Cure: "wait for the next one",
		})
	}
	found = append(found, w.findings(v, m.GetIdentity())...)
	return found, m.GetVersion()
}

// anonymous is the identity of all clients of a server that does not know them.
const anonymous = "anonymous"

// findings returns what the last answer shows of a server.
func (w *witness) findings(v *server, identity string) (found []driver.Finding) {
	warn := func(means, cure, format string, args ...any) {
		found = append(found, driver.Finding{
			Level: driver.LevelWarning, What: fmt.Sprintf("the lock server "+v.addr+" "+format, args...), Means: means, Cure: cure,
		})
	}
	if identity == anonymous {
		warn("every program that reaches it may break every lock", "start it with --tokens", "does not know its clients")
	}
	if w.answer == nil {
		return found
	}
	if date, err := http.ParseTime(w.answer.Header.Get("Date")); err == nil {
		ahead, behind := time.Until(date), w.sent.Sub(date)-time.Second
		if skew := max(ahead, behind); skew > maxSkew {
			warn("tokens begin and end too early or too late, and so do times in the audit; locks are not affected",
				"synchronise the clocks", "has a clock that differs from the one of this host by %v", skew.Round(time.Second))
		}
	}
	if state := w.answer.TLS; state != nil && len(state.PeerCertificates) > 0 {
		if left := time.Until(state.PeerCertificates[0].NotAfter); left < renewBefore {
			warn("after that no client connects, and leases are lost", "renew the certificate: the server reads the new file by itself",
				"has a certificate that expires in %v", left.Round(time.Minute))
		}
	}
	return found
}
