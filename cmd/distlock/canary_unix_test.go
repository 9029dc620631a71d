//go:build unix

package main

import (
	"bytes"
	"context"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/internal/testenv"
)

// No command shows a password in its output or in its reports. The password is in a flag, in a file
// and in the configuration; one store works and others do not.
func TestCommands_hidePasswords(t *testing.T) {
	t.Parallel()
	const secret = testenv.Canary + "/@:%"
	redis := testenv.Redis(t, testenv.Password(secret))
	postgres := testenv.Postgres(t, testenv.Password(secret))
	user := url.UserPassword("u", secret).String()
	stores := []struct {
		url   string
		works bool
	}{
		{redis.URL, true},
		{postgres.URL, true},
		{"redis://" + user + "@" + redis.Addr, false},
		{"redis://" + user + "@127.0.0.1:1", false},
		{"rediss://:" + url.QueryEscape(secret) + "@" + redis.Addr, false},
		{"postgres://" + user + "@" + postgres.Addr + "/postgres?sslmode=disable", false},
		{"postgres://" + user + "@127.0.0.1:1/x?lock_mode=advisory&nosuch=1", false},
		{"redlock:?node=" + url.QueryEscape(redis.URL) + "&node=redis://" + user + "@127.0.0.1:1&node=redis://" + user + "@127.0.0.1:2", false},
		{"reddis://:" + secret + "@h", false},
	}
	commands := []string{
		"run a -v --log-format json --report REPORT --ttl 20s -- true", "run a -v -w 10s -c true",
		"run --once k a true", "acquire b --json --ttl 1s", "ls --json", "ls", "show a --json", "wait a -w 10ms",
		"watch --json", "break a --yes --reason x", "limit a --rate 9/1m -- true", "elect a -- sleep 9",
		"doctor", "doctor --json", "migrate", "migrate --print", "bench --time 100ms --clients 1 --json",
		"torture --time 600ms --ttl 100ms --clients 2 --processes 0 --yes", "renew nothandle", "release dlh1.e30",
		"completion bash", "version",
	}
	for i, s := range stores {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			for j, line := range commands {
				dir := t.TempDir()
				limit := time.Second
				if s.works {
					limit = 20 * time.Second // enough for a busy machine
				}
				args := strings.Fields(strings.ReplaceAll(line, "REPORT", filepath.Join(dir, "report")))
				out, code := runLimited(t, limit, dir, j%3, s.url, args)
				report, _ := os.ReadFile(filepath.Join(dir, "report"))
				if found := testenv.Leaks(out+string(report), testenv.Canary); len(found) > 0 {
					t.Errorf("%s: the password is shown: %s", line, strings.ReplaceAll(out, testenv.Canary, "(HERE)"))
				}
				if runs := strings.HasPrefix(line, "run"); runs && s.works != (code == 0) {
					t.Errorf("%s ends with %d: %s", line, code, strings.ReplaceAll(out, testenv.Canary, "(HERE)"))
				}
			}
		})
	}
}

// runLimited runs a command for a limited time and returns its output and exit code. The way says
// how the command gets the URL: 0 by a flag, 1 by a file that a flag names, 2 by the configuration.
func runLimited(t *testing.T, limit time.Duration, dir string, way int, store string, args []string) (string, int) {
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var more []string
	switch way {
	case 0:
		more = []string{"--config", write("config.toml", ""), "--store", store}
	case 1:
		more = []string{"--config", write("config.toml", ""), "--store", "@" + write("url", store+"\n")}
	default:
		more = []string{"--config", write("config.toml", "store = '"+store+"'\n")}
	}
	if args[0] == "watch" || args[0] == "elect" { // these commands do not end by themselves
		limit = 300 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var out bytes.Buffer
	code := execute(ctx, slices.Concat(args[:1], more, args[1:]), strings.NewReader(""), &out, &out)
	return out.String(), code
}
