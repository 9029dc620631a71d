package main

import (
	"context"
	"strings"
	"testing"
)

func TestExec_wrongInput(t *testing.T) {
	tests := []struct {
		args string
		want []string // in the message
	}{
		{"", []string{"name a benchmark", "  redis ", "  growth ", "  all "}},
		{"foo", []string{`no benchmark is called "foo"`, "  core ", "  postgres ", "  page "}},
		{"growht", []string{"Did you mean growth?"}},
		{"core foo", []string{`"foo"`}},
		{"-rounds 0 core", []string{"-rounds is 0", "at least 1"}},
		{"-each 0s core", []string{"-each is 0s", "more than 0"}},
		{"-each soon core", []string{"soon"}},
		{"-limit -1s growth", []string{"-limit is -1s"}},
		{"-only ( core", []string{"-only", "missing closing"}},
		{"-page -quick core", []string{"-quick"}},
		{"-page -only x core", []string{"-only"}},
		{"-nonsense core", []string{"-nonsense"}},
	}
	for _, tt := range tests {
		var out, errs strings.Builder
		if code := exec(context.Background(), strings.Fields(tt.args), nil, &out, &errs); code != 64 {
			t.Errorf("%q: exit code %d, want 64", tt.args, code)
		}
		for _, want := range tt.want {
			if !strings.Contains(errs.String(), want) {
				t.Errorf("%q: %q is not in the message: %s", tt.args, want, errs.String())
			}
		}
	}
}

func TestExec_noTable(t *testing.T) {
	var out, errs strings.Builder
	if code := exec(context.Background(), strings.Fields("-quick -only nothing core"), nil, &out, &errs); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	for _, want := range []string{"-only nothing matches no table", "a free key, 1 goroutine"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("%q is not in the message: %s", want, errs.String())
		}
	}
}

// A table of one of several suites is enough.
func TestExec_onlyOne(t *testing.T) {
	var out, errs strings.Builder
	if code := exec(context.Background(), []string{"-quick", "-only", "SQLite.*NORMAL", "core", "sqlite"}, nil, &out, &errs); code != 0 {
		t.Errorf("exit code %d, want 0: %s", code, errs.String())
	}
	if !strings.Contains(out.String(), "raw: insert and delete") || strings.Contains(out.String(), "no server") {
		t.Error(out.String())
	}
}

// A missing server has an exit code of its own, and the other suites run.
func TestExec_missingServer(t *testing.T) {
	t.Setenv("DISTLOCK_TEST_PATH", t.TempDir())
	t.Setenv("DISTLOCK_REQUIRE_SERVERS", "0")
	var out, errs strings.Builder
	if code := exec(context.Background(), strings.Fields("-quick redis core"), nil, &out, &errs); code != 69 {
		t.Errorf("exit code %d, want 69", code)
	}
	if !strings.Contains(errs.String(), "redis: there is nothing to measure") || !strings.Contains(errs.String(), "no redis-server on this machine") {
		t.Errorf("the message: %s", errs.String())
	}
	if !strings.Contains(out.String(), "leases held") {
		t.Errorf("core did not run: %s", out.String())
	}
	errs.Reset()
	if code := exec(context.Background(), strings.Fields("-quick -redis 127.0.0.1:1 redis growth"), nil, &out, &errs); code != 1 {
		t.Errorf("exit code %d with another error, want 1: %s", code, errs.String())
	}
}

func TestExec_help(t *testing.T) {
	var out, errs strings.Builder
	if code := exec(context.Background(), []string{"-h"}, nil, &out, &errs); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	for _, want := range []string{"usage: bench", "  sqlite ", "-rounds"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("%q is not in the help: %s", want, errs.String())
		}
	}
}

func TestExec_quick(t *testing.T) {
	var out, errs strings.Builder
	if code := exec(context.Background(), strings.Fields("-quick core"), nil, &out, &errs); code != 0 {
		t.Fatalf("exit code %d, want 0: %s", code, errs.String())
	}
	for _, want := range []string{"== core (1 of 1)", "a free key, 1 goroutine", "leases held", "goroutines added"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in the output: %s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "goal") {
		t.Error("a quick run judges goals")
	}
}

// all writes the page, unless its figures mean nothing.
func TestParse_page(t *testing.T) {
	for args, want := range map[string]bool{
		"all": true, "core": false, "-page core": true, "-quick all": false, "-only x all": false, "page": false,
	} {
		c, err := parse(strings.Fields(args), nil)
		if err != nil || c.page != want {
			t.Errorf("%q: page %v, %v, want %v", args, c.page, err, want)
		}
	}
}
