package testenv

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const installNetwork = "apt-get install iproute2 nftables, or scripts/servers"

// A Network is a network namespace: a separate host for a process. A virtual cable connects it to
// this host. The kernel can cut the cable in each direction separately. Proxies on Host lead out of
// the network.
type Network struct {
	Host  string // the address of this host, as seen from inside
	Guest string // the address of the network, as seen from this host

	name    string
	ip, nft string // the programs
}

// NewNetwork creates a network for the duration of the test. It needs Linux, root, ip and nft.
func NewNetwork(t testing.TB) *Network {
	t.Helper()
	n := &Network{}
	check(t, n.find())
	f, err := newFolder()
	check(t, err)
	t.Cleanup(func() {
		if err := f.remove(); err != nil {
			t.Errorf("testenv: network: %v", err)
		}
	})
	n.choose()
	// The name is written to a file first, so that the next run finds the network if this one is
	// killed.
	check(t, os.WriteFile(filepath.Join(f.path, networkName), []byte(n.name), 0o600))
	check(t, n.make())
	t.Cleanup(func() {
		// The kernel removes both ends of the cable with the end that is inside.
		if err := n.run(n.ip, "netns", "del", n.name); err != nil {
			t.Errorf("testenv: network: %v", err)
		}
	})
	check(t, n.join())
	return n
}

// CanNetwork reports whether this machine allows the tests to create networks.
func CanNetwork() bool {
	n := &Network{}
	n.choose()
	if n.find() != nil || n.make() != nil {
		return false
	}
	return n.run(n.ip, "netns", "del", n.name) == nil
}

func (n *Network) find() (err error) {
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		return &missingError{"right to make a network namespace", "run the tests on Linux as root"}
	}
	if n.ip, err = find("ip", installNetwork); err != nil {
		return err
	}
	n.nft, err = find("nft", installNetwork)
	return err
}

// choose picks a name for the network and the cable. It has at most 15 bytes.
func (n *Network) choose() { n.name = "distlock" + strings.ToLower(rand.Text()[:6]) }

func (n *Network) make() error {
	if err := n.run(n.ip, "netns", "add", n.name); err != nil {
		return &missingError{"right to make a network namespace", "run the tests where root may, such as a privileged container"}
	}
	return nil
}

// join lays the cable. Both ends have addresses of a random small subnet. A subnet that is already
// in use is skipped.
func (n *Network) join() error {
	const pairs = 1 << 12 // in 10.213.0.0/16, four addresses each
	var b [2]byte
	var host, guest string
	for range 20 {
		rand.Read(b[:])
		i := (int(b[0])<<8 | int(b[1])) % pairs * 4
		host, guest = fmt.Sprintf("10.213.%d.%d", i>>8, i&255+1), fmt.Sprintf("10.213.%d.%d", i>>8, i&255+2)
		if !ours(host) {
			break
		}
	}
	n.Host, n.Guest = host, guest
	inside := "g" + n.name
	steps := [][]string{
		{n.ip, "link", "add", n.name, "type", "veth", "peer", "name", inside},
		{n.ip, "link", "set", inside, "netns", n.name},
		{n.ip, "addr", "add", host + "/30", "dev", n.name},
		{n.ip, "link", "set", n.name, "up"},
		{n.ip, "-n", n.name, "addr", "add", guest + "/30", "dev", inside},
		{n.ip, "-n", n.name, "link", "set", inside, "up"},
		{n.ip, "-n", n.name, "link", "set", "lo", "up"},
		n.filter("add table inet f"),
		n.filter("add chain inet f in { type filter hook input priority 0; }"),
		n.filter("add chain inet f out { type filter hook output priority 0; }"),
	}
	for _, step := range steps {
		if err := n.run(step...); err != nil {
			return err
		}
	}
	return nil
}

// ours reports whether an address belongs to this host.
func ours(host string) bool {
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		if ip, _, err := net.ParseCIDR(a.String()); err == nil && ip.String() == host {
			return true
		}
	}
	return false
}

// Command returns a command that runs inside the network. ip executes the program in its own
// process, so the process id is the program's.
func (n *Network) Command(program string, args ...string) *exec.Cmd {
	return exec.Command(n.ip, append([]string{"netns", "exec", n.name, program}, args...)...)
}

// Cut drops every packet in the directions; ToServer is outgoing. No endpoint is notified, and
// connections stay open.
func (n *Network) Cut(d Direction) error {
	var errs []error
	if d&ToServer != 0 {
		errs = append(errs, n.run(n.filter("add rule inet f out drop")...))
	}
	if d&ToClient != 0 {
		errs = append(errs, n.run(n.filter("add rule inet f in drop")...))
	}
	return errors.Join(errs...)
}

// Heal lets everything pass again. TCP retransmits the packets that were dropped.
func (n *Network) Heal() error { return n.run(n.filter("flush table inet f")...) }

func (n *Network) filter(command string) []string {
	return []string{n.ip, "netns", "exec", n.name, n.nft, command}
}

func (n *Network) run(args ...string) error {
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}
