package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/distlock/distlock/internal/testenv"
)

// Stores that undo their own grants, or whose claims end with a connection, are refused.
func TestServe_refuses(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	nodes := []*testenv.RedisServer{testenv.Redis(t), testenv.Redis(t), testenv.Redis(t)}
	for store, want := range map[string]string{
		nodes[0].URL + "?lock_replicas=1":                                   "may undo a grant",
		testenv.URL("redlock", nodes[0].Addr, nodes[1].Addr, nodes[2].Addr): "this store cannot be served",
		testenv.Postgres(t, testenv.Shared()).URL + "&lock_mode=advisory":   "this store cannot be served: pgadvisory lacks a queue",
	} {
		var out, err bytes.Buffer
		code := execute(t.Context(), []string{"serve", "--store", store}, nil, &out, &err)
		if code != exitUsage || !strings.Contains(err.String(), want) {
			t.Errorf("%s: exit %d, %s", store, code, err.String())
		}
	}
}

// A SQLite file is for remote holders, and addresses that others reach need flags.
func TestServe_check(t *testing.T) {
	for _, tt := range []struct {
		url     string
		service service
		want    string // the URL, or part of the error
	}{
		{"sqlite:", service{}, "sqlite:?holders=remote"},
		{"sqlite:a.db?synchronous=full", service{}, "sqlite:a.db?synchronous=full&holders=remote"},
		{"sqlite:a.db?holders=remote", service{}, "sqlite:a.db?holders=remote"},
		{"sqlite:///holders=/a.db", service{}, "sqlite:///holders=/a.db?holders=remote"},
		{"postgres://db/app", service{listen: []string{"localhost:1", "[::1]:1", "unix:/s"}}, "postgres://db/app"},
		{"memory:", service{demo: true}, "memory:"},
		{"memory:", service{}, "forgets all locks"},
		{"https://a", service{}, "names a lock server"},
		{"sqlite:", service{listen: []string{"0.0.0.0:1"}, noTLS: true, accessFlags: accessFlags{noAuth: true}}, "--only-server"},
		{"sqlite:", service{listen: []string{"0.0.0.0:1"}, noTLS: true, accessFlags: accessFlags{noAuth: true}, only: true}, "sqlite:?holders=remote"},
		{"postgres://db/app", service{listen: []string{":1"}, accessFlags: accessFlags{noAuth: true}}, "--insecure-no-tls"},
		{"postgres://db/app", service{listen: []string{"host:1"}, opsFlags: opsFlags{cert: "c", key: "k"}}, "--insecure-no-auth"},
		{"postgres://db/app", service{listen: []string{"host:1"}, opsFlags: opsFlags{cert: "c", key: "k"}, accessFlags: accessFlags{noAuth: true}}, "postgres://db/app"},
		{"postgres://db/app", service{listen: []string{"host:1"}, opsFlags: opsFlags{cert: "c", key: "k"}, accessFlags: accessFlags{tokens: "f"}}, "postgres://db/app"},
		{"postgres://db/app", service{listen: []string{"host:1"}, accessFlags: accessFlags{tokens: "f"}}, "--insecure-no-tls"},
		{"postgres://db/app", service{accessFlags: accessFlags{tokens: "f", noAuth: true}}, "exclude each other"},
		{"postgres://db/app", service{opsFlags: opsFlags{cert: "c"}}, "belong together"},
		{"postgres://db/app", service{opsFlags: opsFlags{clientCA: "ca"}, accessFlags: accessFlags{tokens: "t"}}, "--tls-client-ca needs --tls-cert"},
		{"postgres://db/app", service{opsFlags: opsFlags{cert: "c", key: "k", clientCA: "ca"}}, "need --tokens"},
		{"postgres://db/app", service{opsFlags: opsFlags{issuer: "https://i", audience: "a"}}, "need --tokens"},
		{"postgres://db/app", service{opsFlags: opsFlags{issuer: "https://i"}, accessFlags: accessFlags{tokens: "t"}}, "belong together"},
		{"postgres://db/app", service{opsFlags: opsFlags{logFormat: "xml"}}, "the formats are text and json"},
		{"postgres://db/app", service{opsFlags: opsFlags{cert: "c", key: "k", clientCA: "ca"}, accessFlags: accessFlags{tokens: "t"}}, "postgres://db/app"},
	} {
		tt.service.app = &app{}
		got, err := tt.service.check(tt.url)
		if err != nil && exitCode(err) == exitUsage {
			got = err.Error()
		}
		if got != tt.want && (err == nil || !strings.Contains(got, tt.want)) {
			t.Errorf("%s, %+v: %q, want %q", tt.url, tt.service, got, tt.want)
		}
	}
}
