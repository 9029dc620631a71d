package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/pflag"

	"github.com/distlock/distlock/server"
	"github.com/distlock/distlock/server/oidc"
)

const (
	// inherited is the address of the sockets that systemd passes on.
	inherited = "systemd"

	// defaultRate is how many calls a second one identity may make, if clients have identities.
	defaultRate = 1_000
)

// opsFlags say how a server is operated.
type opsFlags struct {
	cert, key, clientCA string
	issuer, audience    string
	metricsListen       string
	logFormat           string
	limits              server.Limits

	certificate *server.Certificate // nil: no TLS
	log         *slog.Logger
	telemetry   *telemetry
}

func (o *opsFlags) add(f *pflag.FlagSet) {
	f.StringVar(&o.cert, "tls-cert", "", "the `FILE` with the certificate of the server, for https://; it is read again when it changes")
	f.StringVar(&o.key, "tls-key", "", "the `FILE` with its key")
	f.StringVar(&o.clientCA, "tls-client-ca", "", "clients prove their identity with a certificate that an authority of `FILE` has signed; --tokens has their permissions")
	f.StringVar(&o.issuer, "oidc-issuer", "", "clients prove their identity with a token of the OpenID Connect issuer `URL`; --tokens has their permissions")
	f.StringVar(&o.audience, "oidc-audience", "", "accept only tokens of the issuer that are for `NAME`")
	f.StringVar(&o.metricsListen, "metrics-listen", "", "serve /metrics, /livez and /readyz on `ADDRESS`, for every client that reaches it; without it, /metrics is for clients that may observe all names")
	f.StringVar(&o.logFormat, "log", "text", "the `FORMAT` of the log: text or json")
	f.IntVar(&o.limits.Calls, "max-rate", 0, "calls a second of one identity, and as many renewals and releases again; 0: 1000 if clients prove their identity, and no bound otherwise; -1: no bound (`N`)")
	f.IntVar(&o.limits.Waits, "max-waits", 1_000, "calls of one identity that wait for a lock; -1: no bound (`N`)")
	f.IntVar(&o.limits.Watches, "max-watches", 10_000, "watches of one identity; -1: no bound (`N`)")
	f.IntVar(&o.limits.Claims, "max-claims", 50_000, "locks that one identity holds; -1: no bound (`N`)")
	f.IntVar(&o.limits.InFlight, "max-store-calls", 128, "calls of the store at the same time, other than renewals and releases; one identity has half of them (`N`)")
	f.IntVar(&o.limits.Conns, "max-connections", 4_096, "connections (`N`)")
}

// checkOps refuses flags that do not go together.
func (s *service) checkOps() error {
	switch {
	case (s.cert == "") != (s.key == ""):
		return usage("--tls-cert and --tls-key belong together")
	case s.clientCA != "" && s.cert == "":
		return usage("--tls-client-ca needs --tls-cert and --tls-key: a client sends its certificate with TLS only")
	case (s.issuer == "") != (s.audience == ""):
		return usage("--oidc-issuer and --oidc-audience belong together")
	case s.tokens == "" && (s.clientCA != "" || s.issuer != ""):
		return usage("--tls-client-ca and --oidc-issuer need --tokens: the file has the permissions of their clients")
	case s.logFormat != "" && s.logFormat != "text" && s.logFormat != "json":
		return usage("--log %.32q: the formats are text and json", s.logFormat)
	}
	return nil
}

// operate adds the options of an operator to those of a server.
func (s *service) operate(ctx context.Context, opt *server.Options) (err error) {
	opt.Limits = s.limits
	if opt.Limits.Calls == 0 && s.authenticates() {
		opt.Limits.Calls = defaultRate
	}
	opt.Limits.Keeps, opt.Limits.Records = opt.Limits.Calls, opt.Limits.Claims
	if s.cert != "" {
		if s.certificate, err = server.NewCertificate(s.cert, s.key, s.clientCA, s.log); err != nil {
			return usage("--tls-cert: %w", err)
		}
	}
	if s.clientCA != "" {
		opt.Authenticate = append(opt.Authenticate, server.ClientCertificate)
	}
	if s.issuer != "" {
		issuer, err := oidc.New(s.issuer, s.audience, &oidc.Options{Logger: s.log})
		if err != nil {
			return usage("--oidc-issuer: %w", err)
		}
		opt.Authenticate = append(opt.Authenticate, issuer.Authenticate)
	}
	if s.telemetry, err = newTelemetry(ctx, s.certificate); err != nil {
		return usage("telemetry: %w", err)
	}
	s.closes = append(s.closes, s.telemetry.close)
	opt.Meter, opt.Tracer = s.telemetry.meter, s.telemetry.tracer
	if s.metricsListen == "" {
		opt.Routes = append(opt.Routes, server.Route{Pattern: "/metrics", Class: server.Observer, Handler: s.telemetry.handler})
	}
	return nil
}

// newLog returns the log, in the format of --log.
func (s *service) newLog() *slog.Logger {
	if s.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(s.err, nil))
	}
	return slog.New(slog.NewTextHandler(s.err, nil))
}

// say writes a text for the operator, in the format of --log.
func (s *service) say(format string, args ...any) {
	if s.logFormat == "json" {
		s.log.Info(oneLine(s.redact(fmt.Sprintf(format, args...))))
		return
	}
	s.app.say(format, args...)
}

// errorLog returns the log of an HTTP server: connections that broke, and the like.
func (s *service) errorLog() *log.Logger {
	if s.logFormat == "json" {
		return slog.NewLogLogger(s.log.Handler(), slog.LevelWarn)
	}
	return log.New(s.err, "distlock: ", 0)
}

// sockets replaces the address "systemd" by the sockets that systemd passes on, and checks their
// addresses.
func (s *service) sockets(addrs []string) (listeners []net.Listener, others []string, err error) {
	for _, addr := range addrs {
		if addr != inherited {
			others = append(others, addr)
			continue
		}
		all, err := activation.Listeners()
		if err != nil || len(all) == 0 {
			return nil, nil, usage("--listen systemd: systemd has passed no socket on: the service needs a .socket unit")
		}
		for _, l := range all {
			if l == nil {
				return nil, nil, usage("--listen systemd: a socket that systemd has passed on does not listen: use ListenStream")
			}
			if l.Addr().Network() != "unix" {
				if err := s.checkAddress(l.Addr().String()); err != nil {
					return nil, nil, err
				}
			}
			listeners = append(listeners, l)
		}
	}
	return listeners, others, nil
}

// notifySystemd reports a state to systemd, if it started the server.
func (s *service) notifySystemd(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.say("systemd cannot be notified: %v", err)
	}
}

// startMetrics serves metrics and probes on their own address.
func (s *service) startMetrics(ctx context.Context, failed chan<- error) (*http.Server, error) {
	l, err := listen(ctx, s.metricsListen)
	if err != nil {
		return nil, &exitError{exitUnavailable, fmt.Errorf("--metrics-listen %.256s: %w", s.metricsListen, err)}
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", s.telemetry.handler)
	mux.Handle("/", s.handler.Probes())
	h := &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		MaxHeaderBytes: 16 << 10, ErrorLog: s.errorLog(),
	}
	go func() {
		if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed <- &exitError{exitFailed, err}
		}
	}()
	s.say("serves metrics on http://%s/metrics", strings.TrimPrefix(l.Addr().String(), "@"))
	return h, nil
}

// identified says in a few words how clients prove their identity.
func (s *service) identified() string {
	ways := []string{"a token"}
	if s.clientCA != "" {
		ways = append(ways, "a certificate")
	}
	if s.issuer != "" {
		ways = append(ways, "a token of "+s.issuer)
	}
	return "clients prove their identity with " + strings.Join(ways, ", or with ")
}
