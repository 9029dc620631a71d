package browser

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/distlock/distlock/driver"
	store "github.com/distlock/distlock/open"
)

// connect returns the store behind a server, as a client has it.
func connect(t *testing.T, url string) driver.Store {
	t.Helper()
	src, err := store.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(src.Close)
	return src.Store
}

// claim acquires a lock, or joins its queue.
func claim(t *testing.T, s driver.Store, key, holder string) driver.ID {
	t.Helper()
	r := driver.Request{
		ID: driver.ID{Key: key, Owner: fmt.Sprintf("%032x", len(key)) + holder}, Weight: driver.Whole, Limit: driver.Whole,
		TTL: time.Hour, QueueTTL: time.Hour, Holder: holder,
	}
	if _, err := s.Acquire(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return r.ID
}

// memory starts a server with an empty store, on which this host may do everything.
func memory(t *testing.T) string {
	t.Helper()
	return serve(t, "--demo", "--store", "memory:", "--local", "acquire,observe,break", "--audit", t.TempDir()+"/audit.log")
}

// Every page is there, with and without locks, and is reached by its links.
func TestPages(t *testing.T) {
	b := open(t, memory(t))
	for path, want := range map[string]string{"/": "No lock is held yet", "/locks": "No lock is held", "/graph": "Nobody waits", "/audit": "No entry yet"} {
		b.show(path)
		if got := b.text("main"); !strings.Contains(got, want) {
			t.Errorf("%s: no %q in %q", path, want, got)
		}
	}
	s := connect(t, b.url)
	claim(t, s, "team/deploy", "ci-1")
	claim(t, s, "team/deploy", "ci-2")
	b.show("/")
	b.eventually(`document.querySelector("main").innerText.includes("team/deploy")`)
	b.eventually(`document.querySelector(".chart canvas")`)
	b.do(chromedp.Click(chromedp.CSS(`nav a[href$="locks"]`)))
	b.do(chromedp.Click(chromedp.CSS(`td a`)))
	b.eventually(`document.querySelector("main").innerText.includes("ci-1 holds it (exclusive)")`)
	if got := b.text("main"); !strings.Contains(got, "ci-2 waits") {
		t.Errorf("the page does not say who waits: %s", got)
	}
	b.do(chromedp.Click(chromedp.CSS(`nav a[href$="graph"]`)))
	b.eventually(`document.querySelectorAll("#picture svg .node").length === 3`)
	b.do(chromedp.Click(chromedp.CSS(`nav a[href$="audit"]`)))
	b.eventually(`document.querySelector("main").innerText.includes("granted")`)
}

// A page changes by itself, and its times count.
func TestLive(t *testing.T) {
	b := open(t, memory(t))
	s := connect(t, b.url)
	b.show("/locks")
	b.eventually(`document.getElementById("state").dataset.state === "on"`)
	id := claim(t, s, "deploy", "ci-1")
	b.eventually(`/^([2-9]|1[0-9]) s$/.test(document.querySelector("td time[data-ago]")?.textContent)`)
	claim(t, s, "deploy", "ci-2")
	b.eventually(`document.querySelector("main").innerText.includes("ci-1")`)
	if err := s.Release(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	b.eventually(`!document.querySelector("main").innerText.includes("ci-1")`)
}

// Break ends the holder's claim. A form whose holder has changed says so, and ends nothing.
func TestBreak(t *testing.T) {
	b := open(t, memory(t))
	s := connect(t, b.url)
	first := claim(t, s, "deploy", "ci-1")
	fill := func(confirm string) {
		b.do(chromedp.Click(chromedp.CSS("summary")), chromedp.SendKeys(chromedp.CSS(`[name=reason]`), "ci-1 is gone"),
			chromedp.SendKeys(chromedp.CSS(`[name=confirm]`), confirm))
	}
	send := func() string {
		if _, err := chromedp.RunResponse(b.ctx, chromedp.Click(chromedp.CSS("button.danger"))); err != nil {
			t.Fatal(err)
		}
		return b.text("main")
	}
	b.show("/locks/lock/deploy")
	if got := b.text("main"); strings.Contains(got, "Break the lock") {
		t.Error("the form is open")
	}
	fill("deploi")
	if got := send(); !strings.Contains(got, "is another one") {
		t.Errorf("a wrong name: %s", got)
	}
	b.show("/locks/lock/deploy")
	fill("deploy")
	if got := b.text("details"); !strings.Contains(got, "may still be at work") {
		t.Errorf("the form says %q", got)
	}
	if err := s.Release(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	second := claim(t, s, "deploy", "ci-2")
	b.eventually(`!document.querySelector(".changed").hidden`)
	if got := send(); !strings.Contains(got, "Nothing was broken") {
		t.Errorf("another holder: %s", got)
	}
	b.show("/locks/lock/deploy")
	fill("deploy")
	send()
	if _, err := s.Renew(t.Context(), driver.Renewal{ID: second, TTL: time.Minute}); err == nil || !strings.Contains(err.Error(), "ci-1 is gone") {
		t.Errorf("the holder gets %v", err)
	}
	b.show("/audit")
	if got := b.text("main"); !strings.Contains(got, "broken") || !strings.Contains(got, "ci-1 is gone") {
		t.Errorf("the audit has %q", got)
	}
}

// A log-in needs a token, and ends with the log-out.
func TestLogIn(t *testing.T) {
	if chromium == nil {
		t.Skip("chromium is missing: run scripts/servers --all")
	}
	file := t.TempDir() + "/tokens.toml"
	token := tokenOf(t, file, "ann", "*=acquire,observe")
	b := open(t, serve(t, "--demo", "--store", "memory:", "--tokens", file))
	submit := func(token string) string {
		b.do(chromedp.SendKeys(chromedp.CSS(`[name=token]`), token))
		if _, err := chromedp.RunResponse(b.ctx, chromedp.Submit(chromedp.CSS(`[name=token]`))); err != nil {
			t.Fatal(err)
		}
		return b.text("body")
	}
	b.show("/locks")
	if got := submit(token[:len(token)-1] + "x"); !strings.Contains(got, "not valid") {
		t.Errorf("a wrong token: %s", got)
	}
	if got := submit(token); !strings.Contains(got, "token:ann") {
		t.Errorf("after the log-in: %s", got)
	}
	if cookies := get(b, chromedp.Evaluate[string]("document.cookie")); cookies != "" {
		t.Errorf("scripts see the cookie %q", cookies)
	}
	b.eventually(`document.getElementById("state").dataset.state === "on"`)
	if _, err := chromedp.RunResponse(b.ctx, chromedp.Click(chromedp.CSS("button.quiet"))); err != nil {
		t.Fatal(err)
	}
	b.show("/locks")
	if got := b.text("main"); !strings.Contains(got, "Paste a token") {
		t.Errorf("after the log-out: %s", got)
	}
}

// Without JavaScript the pages have the same contents, and Break works.
func TestNoScript(t *testing.T) {
	b := open(t, memory(t))
	s := connect(t, b.url)
	claim(t, s, "deploy", "ci-1")
	claim(t, s, "deploy", "ci-2")
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	for path, want := range map[string]string{"/": "ci-1", "/locks?q=dep": "deploy", "/locks/lock/deploy": "ci-2 waits", "/graph": "ci-2", "/audit": "granted"} {
		b.show(path)
		if got := b.text("main"); !strings.Contains(got, want) {
			t.Errorf("%s: no %q in %q", path, want, got)
		}
	}
}

// Names of attackers are texts: no dialog, no refusal of the policy, and each leads to its own
// page.
func TestHostile(t *testing.T) {
	b := open(t, memory(t))
	s := connect(t, b.url)
	names := []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `'><svg onload=alert(1)>`, `javascript:alert(1)`, `</title><script>alert(1)</script>`,
		`" autofocus onfocus=alert(1) x="`, `' onmouseover='alert(1)`, `<iframe src="javascript:alert(1)">`, `<style>*{display:none}</style>`, `<a href=//evil.example>x</a>`,
		`<base href=//evil.example>`, `<meta http-equiv=refresh content=0>`, `--><script>alert(1)</script>`, `]]><script>alert(1)</script>`, `{{constructor.constructor('alert(1)')()}}`,
		`${alert(1)}`, "`-alert(1)-`", `\u003cscript\u003e`, `&lt;script&gt;`, `&#x3c;script>`, `hx-on:click=alert(1)`, `<div hx-get=/logout hx-trigger=load>`, `<form action=//evil.example>`,
		"..", ".", "../..", "a/../b", "a//b", "/", "//evil.example/x", "%2f", "%2e%2e", "a%2Fb", "a?b=c", "a#b", "a&b=c", " a ", "a  b", "\u202egnp.exe", "\u200b", "\u3164", "\u2800", "\ufeff",
		"\x00", "a\nb", "a\r\ndata: <script>alert(1)</script>\n\n", "\xff\xfe", strings.Repeat("x", 500), strings.Repeat("🔒", 100), "\u0301\u0301\u0301", "locks", "login", "static/app.js", "名前",
	}
	if len(names) < 50 {
		t.Fatal("too few names")
	}
	for i, name := range names {
		claim(t, s, name, fmt.Sprintf("holder-%d", i))
		claim(t, s, name, name+"<img src=x onerror=alert(2)>")
	}
	for _, path := range []string{"/", "/locks?sort=holder", "/graph", "/audit"} {
		b.show(path)
		b.eventually(`document.getElementById("state").dataset.state === "on"`)
	}
	b.show("/locks")
	// In one script: 50 navigations take long.
	wrong := get(b, chromedp.Evaluate[[]string](`(async () => {
		const wrong = [], seen = new Set();
		for (const row of document.querySelectorAll("tbody tr")) {
			const holder = row.querySelector(".by").textContent.trim();
			const page = await (await fetch(row.querySelector("a").href)).text();
			const doc = new DOMParser().parseFromString(page, "text/html");
			seen.add(holder);
			if (!doc.querySelector(".headline")?.textContent.includes("Held by " + holder + ".")) wrong.push(row.querySelector("a").href);
			if (doc.querySelector("main img, main iframe, main svg, main script, main style, main base")) wrong.push("an element: " + row.querySelector("a").href);
		}
		if (seen.size !== document.querySelectorAll("tbody tr").length) wrong.push("rows are missing");
		return wrong;
	})()`, chromedp.EvalAwaitPromise))
	if len(wrong) > 0 {
		t.Errorf("%d names do not lead to their pages: %q", len(wrong), wrong)
	}
	if n := get(b, chromedp.Evaluate[int](`document.querySelectorAll("tbody tr").length`)); n != len(names) {
		t.Errorf("%d rows, want %d", n, len(names))
	}
	for _, name := range names[:3] {
		b.show("/locks/lock/?name=" + url.QueryEscape(name))
		b.eventually(`document.getElementById("state").dataset.state === "on"`)
	}
}

// axe-core finds nothing serious, in both themes and on a narrow screen, which needs no scrolling
// to the side.
func TestAccessible(t *testing.T) {
	b := open(t, memory(t))
	s := connect(t, b.url)
	for i := range 5 {
		claim(t, s, fmt.Sprintf("team-a/some-service-with-a-long-name/job-%d", i), fmt.Sprintf("host-%d.internal.example", i))
		claim(t, s, fmt.Sprintf("team-a/some-service-with-a-long-name/job-%d", i), "ci-2")
	}
	axe := unzip(t, "testdata/axe.min.js.gz")
	for _, path := range []string{"/", "/locks", "/locks/lock/team-a/some-service-with-a-long-name/job-1", "/locks/lock/free", "/graph", "/audit"} {
		for _, theme := range []string{"light", "dark"} {
			width := int64(1200)
			if theme == "dark" {
				width = 390
			}
			b.theme(theme, width)
			b.show(path)
			b.eventually(`document.getElementById("state").dataset.state === "on"`)
			if wide := get(b, chromedp.Evaluate[int](`document.documentElement.scrollWidth`)); int64(wide) > width {
				t.Errorf("%s is %d wide on a screen of %d", path, wide, width)
			}
			found := get(b, chromedp.Evaluate[json.RawMessage](axe+`;axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations
				.filter(v => v.impact === "serious" || v.impact === "critical")
				.map(v => v.id + ": " + v.nodes.map(n => n.target + " " + n.failureSummary).join("; ")))`, chromedp.EvalAwaitPromise))
			if string(found) != "[]" {
				t.Errorf("%s, %s: %s", path, theme, found)
			}
		}
	}
}

// A first load has at most 80 kB, and the theme follows the system.
func TestFirstLoad(t *testing.T) {
	b := open(t, memory(t))
	claim(t, connect(t, b.url), "deploy", "ci")
	b.theme("dark", 1200)
	b.show("/")
	b.eventually(`document.querySelector(".chart canvas")`)
	b.eventually(`performance.getEntriesByType("resource").length >= 5`)
	b.mu.Lock()
	n := b.bytes
	b.mu.Unlock()
	t.Logf("%d bytes", n)
	if n == 0 || n > 80_000 {
		t.Errorf("the first load has %d bytes", n)
	}
	dark := get(b, chromedp.Evaluate[string](`getComputedStyle(document.body).backgroundColor`))
	b.theme("light", 1200)
	if light := get(b, chromedp.Evaluate[string](`getComputedStyle(document.body).backgroundColor`)); light == dark {
		t.Errorf("both themes are %s", dark)
	}
}

// 10,000 locks and 1,000 waiters stay fluid: a page has a hundred rows.
func TestMany(t *testing.T) {
	b := open(t, memory(t))
	s := connect(t, b.url)
	fill(t, s)
	for path, want := range map[string]int{"/locks": 100, "/locks/lock/contended": 101, "/graph": 200, "/": 1} {
		b.show(path)
		b.eventually(`document.getElementById("state").dataset.state === "on"`)
		if n := get(b, chromedp.Evaluate[int](`document.querySelectorAll("tbody tr").length`)); n != want {
			t.Errorf("%s has %d rows, want %d", path, n, want)
		}
		if ms := get(b, chromedp.Evaluate[float64](`performance.getEntriesByType("navigation")[0].domInteractive`)); ms > 5000 {
			t.Errorf("%s took %.0f ms", path, ms)
		}
	}
}

func unzip(t *testing.T, path string) string {
	t.Helper()
	packed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
