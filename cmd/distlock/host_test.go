package main

import "testing"

func TestOnThisHost(t *testing.T) {
	t.Setenv("PGHOST", "")
	t.Setenv("PGSERVICE", "")
	for url, want := range map[string]bool{
		"memory:":                                                   true,
		"sqlite:":                                                   true,
		"sqlite:///var/lib/locks.db":                                true,
		"redis+unix:///run/redis.sock?db=0":                         true,
		"http+unix:///run/distlock.sock":                            true,
		"unix:/run/distlock.sock":                                   true,
		"redis://localhost":                                         true,
		"redis://u:p@127.0.0.1:6379/0":                              true,
		"redis://u:p%40host@[::1]:6379/0":                           true,
		"redis://:6379":                                             true,
		"redis://host.example:6379":                                 false,
		"redis://localhost@host.example":                            false,
		"redis://localhost.example":                                 false,
		"redis://10.0.0.1":                                          false,
		"rediss://192.0.2.1:1/0?tls_ca=x":                           false,
		"redlock://localhost:1,127.0.0.1:2/0":                       true,
		"redlock://localhost:1,h2:2,h3:3/0":                         false,
		"redlock:?node=redis://localhost:1":                         true,
		"redlock:?node=redis://[::1]:1&node=redis%3A%2F%2Fhost%3A1": false,
		"redlock:":                        false,
		"postgres:///db":                  true,
		"postgres:///db?host=/run/pg":     true,
		"postgres:///db?host=db.example":  false,
		"postgres://localhost,other/db":   false,
		"etcd://h1:2379,h2:2379/prefix":   false,
		"https://:token@locks.example:76": false,
		"nonsense":                        false,
	} {
		if got := onThisHost(url); got != want {
			t.Errorf("%s: %v, want %v", url, got, want)
		}
	}
}

// If the URL names no host, the variables of PostgreSQL do.
func TestOnThisHost_variables(t *testing.T) {
	t.Setenv("PGSERVICE", "")
	for host, want := range map[string]bool{
		"192.0.2.77": false, "localhost,db.example": false, "localhost": true, "::1": true, "/run/pg": true,
	} {
		t.Setenv("PGHOST", host)
		for _, url := range []string{"postgres:///db", "postgresql://u:p@:5433/db"} {
			if got := onThisHost(url); got != want {
				t.Errorf("PGHOST=%s %s: %v, want %v", host, url, got, want)
			}
		}
		if !onThisHost("postgres://localhost/db") || onThisHost("postgresql://db.example/db") || !onThisHost("redis://") {
			t.Errorf("PGHOST=%s is used although the URL names a host", host)
		}
	}
	t.Setenv("PGHOST", "")
	if onThisHost("postgres:///db?service=far") {
		t.Error("a service may be on any host")
	}
	t.Setenv("PGSERVICE", "far")
	if onThisHost("postgres:///db") || !onThisHost("postgres:///db?host=/run/pg") {
		t.Error("a service may be on any host, unless the URL names a host")
	}
}
