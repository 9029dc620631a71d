package testenv_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/internal/testenv"
)

// etcdCall uses etcd's JSON gateway, and returns the field "kvs" of the reply.
func etcdCall(t *testing.T, url, path, key, value string) (values []string, err error) {
	t.Helper()
	in, err := json.Marshal(map[string][]byte{"key": []byte(key), "value": []byte(value)})
	if err != nil {
		t.Fatal(err)
	}
	if value == "" {
		in, _ = json.Marshal(map[string][]byte{"key": []byte(key)})
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+path, strings.NewReader(string(in)))
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var out struct{ Kvs []struct{ Value string } }
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil {
		return nil, err
	}
	for _, kv := range out.Kvs {
		b, err := base64.StdEncoding.DecodeString(kv.Value)
		if err != nil {
			return nil, err
		}
		values = append(values, string(b))
	}
	return values, nil
}

func TestEtcd(t *testing.T) {
	t.Parallel()
	e := testenv.Etcd(t)
	is(t, len(e.Endpoints()), 1)
	one := e.Members[0]
	if _, err := etcdCall(t, one.URL, "/v3/kv/put", "k", "v"); err != nil {
		t.Fatal(err)
	}
	get := func() string {
		t.Helper()
		values, err := etcdCall(t, one.URL, "/v3/kv/range", "k", "")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(values, " ")
	}
	one.Kill()
	one.Restart()
	is(t, get(), "v")
	one.RestartEmpty()
	is(t, get(), "")
}

func TestEtcd_members(t *testing.T) {
	t.Parallel()
	e := testenv.Etcd(t, testenv.Members(3))
	is(t, len(e.Endpoints()), 3)
	if _, err := etcdCall(t, e.Members[0].URL, "/v3/kv/put", "k", "v"); err != nil {
		t.Fatal(err)
	}
	// Two of three still answer.
	e.Members[0].Kill()
	eventually(t, 10*time.Second, "the others elect a leader", func() bool {
		values, err := etcdCall(t, e.Members[1].URL, "/v3/kv/range", "k", "")
		return err == nil && strings.Join(values, " ") == "v"
	})
	e.Members[0].Restart()
	values, err := etcdCall(t, e.Members[0].URL, "/v3/kv/range", "k", "")
	if err != nil {
		t.Error(err)
	}
	is(t, strings.Join(values, " "), "v")
}
