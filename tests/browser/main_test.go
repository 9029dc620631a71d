package browser

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var shots = flag.String("shots", "", "write pictures of all pages to this folder, after the demonstration has run for a minute")

// chromium is the browser of all tests, and command the program under test.
var (
	chromium context.Context
	command  string
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") == "true" {
			fmt.Fprintln(os.Stderr, "chromium is missing, and CI=true allows no gaps: run scripts/servers --all")
			return 1
		}
		return m.Run() // each test skips, and says why
	}
	dir, err := os.MkdirTemp("", "distlock-browser-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	command = filepath.Join(dir, "distlock")
	build := exec.Command("go", "build", "-o", command, "./cmd/distlock")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v: %s\n", err, out)
		return 1
	}
	options := append([]chromedp.ExecAllocatorOption{}, chromedp.DefaultExecAllocatorOptions[:]...)
	for _, flag := range []string{"no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking", "disable-component-update", "disable-sync"} {
		options = append(options, chromedp.Flag(flag, true))
	}
	options = append(options, chromedp.ExecPath(path), chromedp.UserDataDir(filepath.Join(dir, "profile")))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	defer end()
	var cancel context.CancelFunc
	chromium, cancel = chromedp.NewContext(allocator)
	defer cancel()
	if err := chromedp.Do(chromium); err != nil {
		fmt.Fprintln(os.Stderr, "chromium does not start:", err)
		return 1
	}
	return m.Run()
}

// serve starts a server, and returns its address.
func serve(t *testing.T, args ...string) string {
	t.Helper()
	if chromium == nil {
		t.Skip("chromium is missing: run scripts/servers --all")
	}
	cmd := exec.CommandContext(t.Context(), command, append([]string{"serve", "--listen", "127.0.0.1:0", "--drain", "0s"}, args...)...)
	cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+t.TempDir(), "XDG_STATE_HOME="+t.TempDir())
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() })
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if _, url, ok := strings.Cut(lines.Text(), "listens on "); ok {
			go func() { _, _ = io.Copy(io.Discard, stderr) }()
			return url
		}
		t.Log(lines.Text())
	}
	t.Fatal("the server did not start")
	return ""
}

// A tab is a page of the browser. It records what must not happen: dialogs, refusals of the
// Content-Security-Policy, errors of scripts, and requests to other hosts.
type tab struct {
	*testing.T
	ctx context.Context
	url string

	mu    sync.Mutex
	wrong []string
	bytes int64 // that were received
}

// open opens a tab for a server. It has cookies of its own.
func open(t *testing.T, url string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(chromium, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil { // the tab lives as long as the ctx of the first call
		t.Fatal(err)
	}
	b := &tab{T: t, ctx: ctx, url: url}
	b.do(chromedp.EmulateViewport(1200, 900))
	listen(b, page.JavascriptDialogOpening, func(e page.EventJavascriptDialogOpening) {
		b.report("a dialog opened: %s", e.Message)
		_, _ = chromedp.Call(ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{})
	})
	listen(b, log.EntryAdded, func(e log.EventEntryAdded) {
		if strings.Contains(e.Entry.Text, "Content Security Policy") || e.Entry.Source == log.EntrySourceSecurity {
			b.report("refused by the policy: %s", e.Entry.Text)
		}
	})
	listen(b, runtime.ExceptionThrown, func(e runtime.EventExceptionThrown) {
		text := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
		b.report("a script failed: %s", text)
	})
	listen(b, network.RequestWillBeSent, func(e network.EventRequestWillBeSent) {
		if u := e.Request.URL; !strings.HasPrefix(u, url+"/") && !strings.HasPrefix(u, "about:") {
			b.report("a request to another host: %s", u)
		}
	})
	listen(b, network.LoadingFinished, func(e network.EventLoadingFinished) {
		b.mu.Lock()
		b.bytes += int64(e.EncodedDataLength)
		b.mu.Unlock()
	})
	call(b, network.Enable, network.EnableParams{})
	call(b, log.Enable, cdp.Empty{})
	call(b, runtime.Enable, cdp.Empty{})
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, w := range b.wrong {
			t.Error(w)
		}
	})
	return b
}

// listen calls f for each event of a kind, until the tab is closed.
func listen[E any](b *tab, event cdp.Event[E], f func(E)) {
	events := chromedp.Events(b.ctx, event)
	go func() {
		for e, err := range events {
			if err != nil {
				return
			}
			f(e)
		}
	}()
}

// call sends a command to the browser.
func call[P, R any](b *tab, c cdp.Command[P, R], params P) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
	defer cancel()
	if _, err := chromedp.Call(ctx, c, params); err != nil {
		b.Fatal(c.Method, err)
	}
}

func (b *tab) report(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wrong = append(b.wrong, fmt.Sprintf(format, args...))
}

// do runs actions.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 20*time.Second)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.Fatal(err)
	}
}

// get runs an action, and returns its value.
func get[T any](b *tab, a chromedp.Action[T]) T {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 20*time.Second)
	defer cancel()
	v, err := chromedp.Run(ctx, a)
	if err != nil {
		b.Fatal(err)
	}
	return v
}

// show opens a page of the server.
func (b *tab) show(path string) { b.Helper(); b.do(chromedp.Navigate(b.url + path)) }

// text returns the text that a reader sees.
func (b *tab) text(selector string) string {
	b.Helper()
	return get(b, chromedp.Text(chromedp.CSS(selector)))
}

// eventually waits until an expression of JavaScript is true.
func (b *tab) eventually(expression string) {
	b.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		if cancel(); err == nil && ok { // an error: the page is being replaced
			return
		}
	}
	b.Fatalf("not true: %s", expression)
}

// theme sets the theme and the width of the window.
func (b *tab) theme(name string, width int64) {
	b.Helper()
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	})
	b.do(chromedp.EmulateViewport(width, 900))
}
