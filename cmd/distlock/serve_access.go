package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/distlock/distlock/server"
	"github.com/distlock/distlock/server/access"
	"github.com/distlock/distlock/server/tokens"
)

// accessFlags say who the clients of a server are, and what they may do.
type accessFlags struct {
	tokens  string
	local   string
	hosts   []string
	audit   string
	proxies []string
	noAuth  bool

	tokenFile *tokens.File // of tokens
}

func (a *accessFlags) add(f *pflag.FlagSet) {
	f.StringVar(&a.tokens, "tokens", "", "clients prove their identity with a token of `FILE`: see distlock token")
	f.StringVar(&a.local, "local", "acquire,observe", "without --tokens, every user of this host may do `VERBS` on loopback: acquire, observe, break, or none")
	f.StringArrayVar(&a.hosts, "host", nil, "without --tokens, answer to the name `HOST` too; can be repeated")
	f.StringVar(&a.audit, "audit", "-", "record grants, releases, breaks and refusals in `FILE`; - is standard output, and none records nothing and refuses breaks")
	f.StringArrayVar(&a.proxies, "trusted-proxy", nil, "believe the X-Forwarded-For of the proxy at `ADDRESS`, an IP address or a range such as 10.0.0.0/8; can be repeated")
	f.BoolVar(&a.noAuth, "insecure-no-auth", false, "listen on other addresses than loopback, where every client may end every lock")
}

// authenticates reports whether clients prove their identity.
func (a *accessFlags) authenticates() bool { return a.tokens != "" }

// options returns the options of the server.
func (s *service) options(log *slog.Logger) (*server.Options, error) {
	opt := &server.Options{Hosts: append([]string{}, s.hosts...), Logger: log}
	local, err := verbs(s.local)
	if err != nil {
		return nil, usage("--local: %w", err)
	}
	opt.Local = &access.Identity{Name: "local", Permissions: []access.Permission{{Names: "*", Verbs: local}}}
	if s.noAuth {
		opt.Anonymous = access.Everything("anonymous")
	}
	for _, text := range s.proxies {
		p, err := netip.ParsePrefix(text)
		if addr, e := netip.ParseAddr(text); e == nil {
			p, err = addr.Prefix(addr.BitLen())
		}
		if err != nil {
			return nil, usage("--trusted-proxy: %.64q is neither an IP address nor a range", text)
		}
		opt.TrustedProxies = append(opt.TrustedProxies, p)
	}
	if s.tokens != "" {
		file, err := tokens.Open(s.tokens, log)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, usage("--tokens: %w: make it with distlock token new IDENTITY --tokens %s --allow NAMES=VERBS", err, s.tokens)
		case err != nil:
			return nil, usage("--tokens: %w", err)
		}
		s.tokenFile = file
		opt.Authenticate, opt.Permissions = append(opt.Authenticate, file.Authenticate), file.Permissions
	}
	opt.Audit, err = s.openAudit()
	return opt, err
}

func verbs(s string) (access.Verb, error) {
	if s == "none" {
		return 0, nil
	}
	return access.ParseVerbs(s)
}

// openAudit opens the audit. The end of the service closes it.
func (s *service) openAudit() (*server.Audit, error) {
	var w io.Writer
	switch s.audit {
	case "none":
		return nil, nil
	case "-":
		if w = s.out; s.traffic {
			w = io.Discard // the pages show it
		}
	default:
		file, err := openAppend(s.audit)
		if err != nil {
			return nil, &exitError{exitUnavailable, err}
		}
		s.file, w = file, file
	}
	audit := server.NewAudit(io.MultiWriter(w, s.latest))
	s.closes = append(s.closes, audit.Close)
	return audit, nil
}

// An appended is a file that programs which rotate files may rename: after reopen, lines go to a
// new one of the same name.
type appended struct {
	path string
	mu   sync.Mutex
	f    *os.File
}

func openAppend(path string) (*appended, error) {
	a := &appended{path: path}
	return a, a.reopen()
}

func (a *appended) reopen() error {
	f, err := os.OpenFile(a.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	old := a.f
	if a.f = f; old != nil {
		return old.Close()
	}
	return nil
}

// Write writes a line.
func (a *appended) Write(line []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.f.Write(line)
}

// reopens opens the file of the audit again at each HUP, until ctx ends.
func (s *service) reopens(ctx context.Context) {
	if s.file == nil {
		return
	}
	sigs := make(chan os.Signal, 1)
	notify(sigs, syscall.SIGHUP)
	go func() {
		defer signal.Stop(sigs)
		for {
			select {
			case <-ctx.Done():
				return
			case <-sigs:
			}
			if err := s.file.reopen(); err != nil {
				s.say("--audit: %v; the old file stays in use", err)
			}
		}
	}()
}

// ends returns the signals that end the server. HUP opens the file of the audit again, if there is
// one.
func (s *service) ends() []os.Signal {
	out := []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT}
	if s.file == nil {
		out = append(out, syscall.SIGHUP)
	}
	return out
}

// closeAll closes what the service has opened, the last first.
func (s *service) closeAll() error {
	var errs []error
	for i := len(s.closes) - 1; i >= 0; i-- {
		errs = append(errs, s.closes[i]())
	}
	return errors.Join(errs...)
}

// admits says in a few words who may do what, for the start.
func (s *service) admits() string {
	switch {
	case s.authenticates():
		return s.identified()
	case s.noAuth:
		return "every client that reaches it may acquire and end every lock"
	case s.local == "none":
		return "clients on loopback may do nothing"
	}
	return "every user of this host may " + strings.ReplaceAll(s.local, ",", " and ") + " every lock"
}
