package testenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
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
	Certs   *Certs // with TLS
	Socket  string // with Inside: a URL of the first member that no fault of the network cuts off
}

// Etcd starts an etcd cluster, of one member unless Members is given, and returns when all members
// are healthy. It does not wait for the disk, unless Fsync is given. RestartEmpty works for a
// cluster of one member; a member of a larger cluster must be replaced with etcd's own commands.
func Etcd(t testing.TB, opts ...Option) *EtcdCluster {
	t.Helper()
	o := collect(t, "Etcd", opts, "Config", "Fsync", "Inside", "Members", "TLS")
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
		host, _, _ := net.SplitHostPort(s.Addr)
		if n := o.network; n != nil && i == 0 {
			s.Addr, host = strings.Replace(s.Addr, host, n.Guest, 1), n.Guest
			e.Socket = "unix://" + s.path("socket")
		} else if n != nil {
			host = n.Host
		}
		s.URL = "http://" + s.Addr
		if o.tls {
			s.URL = "https://" + s.Addr
		}
		if o.tls && e.Certs == nil {
			if e.Certs, err = NewCerts(s.folder.path); err != nil {
				return err
			}
		}
		peers[i] = fmt.Sprintf("m%d=http://%s:%d", i, host, port)
		e.Members = append(e.Members, s)
	}
	for i, s := range e.Members {
		args := etcdArgs(s, i, peers, o)
		if o.tls {
			args = append(args, "--client-cert-auth", "--trusted-ca-file", e.Certs.CA, "--cert-file", e.Certs.Cert, "--key-file", e.Certs.Key)
		}
		command := exec.Command
		if o.network != nil && i == 0 {
			args, command = append(args, "--listen-client-urls", s.URL+","+e.Socket), o.network.Command
		}
		s.stop = syscall.SIGTERM
		s.plan = plan{
			fill:  func() error { return nil },
			cmd:   func() *exec.Cmd { return command(program, args...) },
			ready: func(ctx context.Context) error { return e.ready(ctx, s.URL) },
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

// ready returns nil when the member is healthy, that is, sees a leader and can commit.
func (e *EtcdCluster) ready(ctx context.Context, url string) error {
	transport := &http.Transport{DisableKeepAlives: true} // the shared default would keep connections
	if e.Certs != nil {
		conf, err := e.Certs.Client()
		if err != nil {
			return err
		}
		transport.TLSClientConfig = conf
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/health", nil)
	if err != nil {
		return err
	}
	res, err := (&http.Client{Transport: transport, Timeout: probeLimit}).Do(req)
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
