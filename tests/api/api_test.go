// Package api_test calls a lock server as the programs of its users do: with curl, with Python's
// standard library and with gRPC of Python. It runs the commands and programs of docs/api.md.
package api_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/server"
	"github.com/distlock/distlock/server/access"
	"github.com/distlock/distlock/server/tokens"
	"github.com/distlock/distlock/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Main(m, nil)) }

// serve serves a SQLite file on loopback, and returns its address.
func serve(t *testing.T) string {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "locks.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return serveStore(t, store)
}

// serveStore serves a store on loopback, and returns the address.
func serveStore(t *testing.T, store driver.Store) string {
	t.Helper()
	return serveWith(t, store, &server.Options{Local: access.Everything("local")}, nil)
}

// serveWith serves a store on loopback with options, by TLS if config is not nil, and returns the
// address.
func serveWith(t *testing.T, store driver.Store, opt *server.Options, config *tls.Config) string {
	t.Helper()
	audit := server.NewAudit(io.Discard)
	opt.Audit = audit
	v, err := server.New(t.Context(), store, opt)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := v.HTTP()
	h.Handler = v.Local()
	var serving sync.WaitGroup
	if h.TLSConfig = config; config == nil {
		serving.Go(func() { _ = h.Serve(l) })
	} else {
		serving.Go(func() { _ = h.ServeTLS(l, "", "") })
	}
	t.Cleanup(func() {
		_ = h.Close()
		serving.Wait()
		_ = audit.Close()
	})
	return l.Addr().String()
}

// block matches a block of code on a page.
var block = regexp.MustCompile("(?ms)^```(sh|bash|json|python|py)\n(.*?)^```\n")

// A sample is a block of code, with the answer that follows it.
type sample struct{ code, answer string }

// page returns the blocks of docs/api.md in a language, for a server at an address.
func page(t *testing.T, language, addr string) (samples []sample) {
	t.Helper()
	text, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	last := ""
	for _, m := range block.FindAllStringSubmatch(string(text), -1) {
		switch {
		case m[1] == "json" && last == language:
			samples[len(samples)-1].answer = m[2]
		case m[1] == language:
			samples = append(samples, sample{code: strings.ReplaceAll(m[2], "localhost:7520", addr)})
		}
		if m[1] != "json" {
			last = m[1]
		}
	}
	if len(samples) == 0 {
		t.Fatalf("docs/api.md has no %s", language)
	}
	return samples
}

// run runs a program at the root of the source tree, and returns its output.
func run(t *testing.T, input, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Stdin = filepath.Join("..", ".."), strings.NewReader(input)
	cmd.Env = append(os.Environ(), "http_proxy=", "no_proxy=*", "PYTHONDONTWRITEBYTECODE=1")
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s\n%s", program, err, errs.String(), out.String())
	}
	return out.String()
}

// The commands of the page work, and their answers have the form of those on the page, on both
// versions of HTTP.
func TestPage_curl(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		testenv.Missing(t, "curl", "apt-get install curl")
	}
	for _, option := range []string{"--http1.1", "--http2-prior-knowledge"} {
		samples := page(t, "sh", serve(t))
		script := "set -euo pipefail\ncurl() { command curl --noproxy '*' -S " + option + " \"$@\"; }\n"
		for _, s := range samples {
			script += s.code + "\nprintf '\\n%s\\n' ---\n"
		}
		answers := strings.Split(run(t, script, "bash", "-s"), "\n---\n")
		for i, s := range samples {
			var got, want any
			if err := json.Unmarshal([]byte(s.answer), &want); err != nil {
				t.Fatalf("the answer on the page: %v: %s", err, s.answer)
			}
			if err := json.Unmarshal([]byte(answers[i]), &got); err != nil {
				t.Errorf("%s\n%v: %s", s.code, err, answers[i])
			}
			if g, w := form(got), form(want); g != w {
				t.Errorf("%s\n%s\nhas the form %s\nand on the page %s", s.code, answers[i], g, w)
			}
		}
	}
}

// form returns what does not depend on time and chance in a JSON value: names of fields, lengths of
// lists, booleans.
func form(v any) string {
	switch v := v.(type) {
	case map[string]any:
		var fields []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			fields = append(fields, k+":"+form(v[k]))
		}
		return "{" + strings.Join(fields, " ") + "}"
	case []any:
		var all []string
		for _, e := range v {
			all = append(all, form(e))
		}
		return "[" + strings.Join(all, " ") + "]"
	case bool:
		return fmt.Sprint(v)
	}
	return fmt.Sprintf("%T", v)
}

// python returns a Python that has a module.
func python(t *testing.T, module string) string {
	t.Helper()
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		path, err := exec.LookPath(name)
		if err == nil && exec.CommandContext(t.Context(), path, "-c", "import "+module).Run() == nil {
			return path
		}
	}
	testenv.Missing(t, "Python with "+module, "scripts/servers --all")
	return ""
}

// program returns all blocks of a language as one program.
func program(t *testing.T, language, addr string) (text string) {
	t.Helper()
	for _, s := range page(t, language, addr) {
		text += s.code
	}
	return text
}

// The program for Python's standard library works as it is.
func TestPage_python(t *testing.T) {
	path := python(t, "urllib.request")
	out := run(t, program(t, "python", serve(t)), path, "-")
	for _, want := range []string{"trusted for ", "1 holder", "['invoices']", "sqlite", "{'released': True}", "'broken': [{"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
}

// A gRPC client of another language works with the descriptor file alone.
func TestPage_grpc(t *testing.T) {
	path := python(t, "grpc, google.protobuf")
	out := run(t, program(t, "py", serve(t)), path, "-")
	for _, want := range []string{
		"granted True", "valid for 0:00:09", "granted False held by local", "\nTrue\n1\n['orders']\nsqlite\n", "broken {", "\nFalse\n",
		"StatusCode.INVALID_ARGUMENT owner: it has 9 characters", "definite: True",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
}

// The call with curl, and the lines of the Python program that are comments, work with a server
// that has TLS and tokens. The certificate is made by the command of docs/server.md.
func TestPage_tls(t *testing.T) {
	for _, name := range []string{"openssl", "curl", "bash"} {
		if _, err := exec.LookPath(name); err != nil {
			testenv.Missing(t, name, "apt-get install "+name)
		}
	}
	dir := t.TempDir()
	text, err := os.ReadFile("../../docs/server.md")
	if err != nil {
		t.Fatal(err)
	}
	made := regexp.MustCompile(`(?s)openssl req .*?-out cert\.pem`).FindString(string(text))
	run(t, "set -e\ncd '"+dir+"'\n"+made, "bash", "-s")
	cert, err := server.NewCertificate(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "tokens.toml")
	secret, _, err := tokens.Add(file, "ci", []access.Permission{{Names: "*", Verbs: access.All}}, time.Time{})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "ci.token"), []byte(secret+"\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	known, err := tokens.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	store, err := sqlite.Open(t.Context(), filepath.Join(dir, "locks.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	opt := &server.Options{Authenticate: []server.Authenticator{known.Authenticate}, Permissions: known.Permissions}
	addr := serveWith(t, store, opt, cert.TLS())
	here := strings.NewReplacer("lock1:7520", addr, "ca.pem", dir+"/cert.pem", "ci.token", dir+"/ci.token")

	out := run(t, here.Replace(program(t, "bash", addr)), "bash", "-s")
	if !strings.Contains(out, `"granted":true`) {
		t.Errorf("curl: %s", out)
	}
	bare := strings.Replace(program(t, "bash", addr), "Bearer ", "", 1)
	if out := run(t, here.Replace(bare), "bash", "-s"); !strings.Contains(out, `the header Authorization is not \"Bearer TOKEN\"`) || strings.Contains(out, secret) {
		t.Errorf("curl without Bearer: %s", out)
	}
	code := program(t, "python", addr)
	for _, line := range []string{"server, tls = ", "headers["} {
		if !strings.Contains(code, "# "+line) {
			t.Fatalf("docs/api.md has no line %q", line)
		}
		code = strings.Replace(code, "# "+line, line, 1)
	}
	code += "\ntry:\n    call(\"Acquire\", nam=\"x\")\nexcept RuntimeError as error:\n    print(error)\n"
	out = run(t, here.Replace(code), python(t, "urllib.request"), "-")
	for _, want := range []string{"{'released': True}", "'broken': [{", "Acquire: HTTP 400: {", `there is no field`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
}
