package testenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

const installEtcd = `scripts/tools, and DISTLOCK_ETCD="$(scripts/tools path etcd)"`

// An EtcdCluster is an etcd cluster of one or more members.
type EtcdCluster struct {
	Members []*Server
}

// Etcd starts an etcd cluster, of one member unless Members is given, and returns when all members
// are healthy. It does not wait for the disk, unless Fsync is given. RestartEmpty works for a
// cluster of one member; a member of a larger cluster must be replaced with etcd's own commands.
func Etcd(t testing.TB, opts ...Option) *EtcdCluster {
	t.Helper()
	o := collect(t, "Etcd", opts, "Config", "Fsync", "Members")
	e := &EtcdCluster{}
	own(t, func(g *group) error {
		e.Members = nil
		return e.start(g, o)
	})
	return e
}

func (e *EtcdCluster) start(g *group, o settings) error {
	program, err := findEtcd()
	if err != nil {
		return err
	}
	peers := make([]string, o.members)
	for i := range peers {
		s, err := g.add("etcd")
		if err != nil {
			return err
		}
		port, err := s.port()
		if err != nil {
			return err
		}
		s.URL = "http://" + s.Addr
		peers[i] = fmt.Sprintf("m%d=http://%s", i, loopback(port))
		e.Members = append(e.Members, s)
	}
	for i, s := range e.Members {
		args := etcdArgs(s, i, peers, o)
		s.stop = syscall.SIGTERM
		s.plan = plan{
			fill:  func() error { return nil },
			cmd:   func() *exec.Cmd { return exec.Command(program, args...) },
			ready: func(ctx context.Context) error { return etcdReady(ctx, s.URL) },
			death: os.Kill,
		}
		if err := s.spawn(true); err != nil {
			return err
		}
	}
	for _, s := range e.Members {
		if err := s.await(); err != nil {
			return err
		}
	}
	return nil
}

// Endpoints returns the URLs of all members.
func (e *EtcdCluster) Endpoints() []string {
	out := make([]string, len(e.Members))
	for i, m := range e.Members {
		out[i] = m.URL
	}
	return out
}

func findEtcd() (string, error) {
	program := os.Getenv("DISTLOCK_ETCD")
	if program == "" {
		return find("etcd", installEtcd)
	}
	// A path that was given and is wrong is a mistake, not a machine without etcd.
	if _, err := exec.LookPath(program); err != nil {
		return "", fmt.Errorf("DISTLOCK_ETCD: %w", err)
	}
	return program, nil
}

func etcdArgs(s *Server, i int, peers []string, o settings) []string {
	name, peer, _ := strings.Cut(peers[i], "=")
	args := []string{
		"--name", name, "--data-dir", s.data(),
		"--listen-client-urls", s.URL, "--advertise-client-urls", s.URL,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", strings.Join(peers, ","), "--initial-cluster-token", "testenv",
	}
	if !o.fsync {
		args = append(args, "--unsafe-no-fsync")
	}
	return append(args, o.lines...)
}

// etcdReady returns nil when the member is healthy, that is, sees a leader and can commit.
func etcdReady(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/health", nil)
	if err != nil {
		return err
	}
	// The transport is not the shared default, which would keep connections.
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: probeLimit}).Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var health struct{ Health, Reason string }
	if err := json.NewDecoder(res.Body).Decode(&health); err != nil {
		return err
	}
	if health.Health != "true" {
		return errors.New("not healthy: " + health.Reason)
	}
	return nil
}
