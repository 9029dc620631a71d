package server_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/server"
	"github.com/distlock/distlock/server/access"
	"github.com/distlock/distlock/store/mem"
)

// probe returns the answer to a probe.
func probe(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

// A server is ready while its store answers within a second, and until it drains. However many
// probes there are, the store is called once a second. A server that is not ready is alive.
func TestServer_readyz(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alter()
		var calls atomic.Int64
		var hang, fail bool
		s.acquire = func(ctx context.Context) error {
			calls.Add(1)
			if hang {
				<-ctx.Done()
				return ctx.Err()
			}
			if fail {
				return errors.New("password: secret")
			}
			return nil
		}
		v, err := server.New(t.Context(), s, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			if code, _ := probe(t, v, "/readyz"); code != http.StatusOK {
				t.Fatal(code)
			}
		}
		if n := calls.Load(); n != 1 {
			t.Errorf("the store was called %d times", n)
		}
		if claims, err := countAll(t, s.Store); claims != 0 || err != nil {
			t.Errorf("%d claims are left, %v", claims, err)
		}
		hang = true
		time.Sleep(2 * time.Second)
		began := time.Now()
		if code, _ := probe(t, v, "/readyz"); code != http.StatusServiceUnavailable || time.Since(began) > 1100*time.Millisecond {
			t.Errorf("%d after %v for a store that hangs", code, time.Since(began))
		}
		hang, fail = false, true
		time.Sleep(2 * time.Second)
		if code, body := probe(t, v, "/readyz"); code != http.StatusServiceUnavailable || strings.Contains(body, "secret") {
			t.Errorf("%d %s", code, body)
		}
		fail = false
		time.Sleep(2 * time.Second)
		if code, _ := probe(t, v, "/readyz"); code != http.StatusOK {
			t.Error("a store that is back is not ready")
		}
		v.Drain()
		if code, _ := probe(t, v, "/readyz"); code != http.StatusServiceUnavailable {
			t.Error("a server that drains is ready")
		}
		if code, _ := probe(t, v, "/livez"); code != http.StatusOK {
			t.Error("a server that drains is not alive")
		}
	})
}

func countAll(t *testing.T, s driver.Store) (n int, err error) {
	t.Helper()
	for _, err := range driver.List(t.Context(), s, "") {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// gRPC health checks have the same answer, without an identity.
func TestServer_health(t *testing.T) {
	t.Parallel()
	v, web := limited(t, mem.New(), server.Limits{})
	check := func(service string) string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+"/grpc.health.v1.Health/Check", strings.NewReader(`{"service":"`+service+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		resp, err := web.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	for service, want := range map[string]string{"": "SERVING_STATUS_SERVING", "distlock.v1.Store": "SERVING_STATUS_SERVING", "other": "not_found"} {
		if got := check(service); !strings.Contains(got, want) {
			t.Errorf("%q: %s", service, got)
		}
	}
	v.Drain()
	if got := check(""); !strings.Contains(got, "SERVING_STATUS_NOT_SERVING") {
		t.Error(got)
	}
}

// Reflection is for those who may observe all names.
func TestServer_reflection(t *testing.T) {
	t.Parallel()
	names := func(id *access.Identity) ([]string, error) {
		v, err := server.New(t.Context(), mem.New(), &server.Options{Anonymous: id})
		if err != nil {
			t.Fatal(err)
		}
		web := httptest.NewUnstartedServer(v)
		web.Config = v.HTTP()
		web.EnableHTTP2 = true
		web.StartTLS()
		t.Cleanup(web.Close)
		stream := grpcreflect.NewClient(web.Client(), web.URL, connect.WithGRPC()).NewStream(t.Context())
		defer stream.Close()
		all, err := stream.ListServices()
		var out []string
		for _, n := range all {
			out = append(out, string(n))
		}
		return out, err
	}
	if got, err := names(access.Everything("a")); err != nil || !slices.Contains(got, "distlock.v1.Store") {
		t.Errorf("%v, %v", got, err)
	}
	one := &access.Identity{Name: "a", Permissions: []access.Permission{{Names: "team/", Verbs: access.All}}}
	if got, err := names(one); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("%v, %v", got, err)
	}
}

// The metrics have no names of locks and no identities.
func TestServer_metrics(t *testing.T) {
	t.Parallel()
	reader := sdkmetric.NewManualReader()
	v, err := server.New(t.Context(), mem.New(), &server.Options{
		Authenticate: []server.Authenticator{byHeader}, Meter: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), Limits: server.Limits{Claims: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(v)
	web.Config = v.HTTP()
	web.Start()
	t.Cleanup(web.Close)
	m := memberOf(web, "hidden-identity")
	for _, key := range []string{"hidden-name", "hidden-name-2"} {
		_ = m.acquire(t, key, time.Minute)
		_ = m.renew(t, key)
	}
	_ = memberOf(web, "").acquire(t, "a", time.Minute)
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	seen := map[string]float64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					seen[m.Name+" "+p.Attributes.Encoded(attribute.DefaultEncoder())] = float64(p.Count)
				}
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					seen[m.Name+" "+p.Attributes.Encoded(attribute.DefaultEncoder())] = float64(p.Value)
				}
			case metricdata.Gauge[int64]:
				for _, p := range d.DataPoints {
					seen[m.Name+" "+p.Attributes.Encoded(attribute.DefaultEncoder())] = float64(p.Value)
				}
			}
		}
	}
	for series, want := range map[string]float64{
		"distlock.server.call.duration call=distlock.v1.Store/Acquire,code=ok":                 1,
		"distlock.server.call.duration call=distlock.v1.Store/Acquire,code=resource_exhausted": 1,
		"distlock.server.store.duration op=acquire,outcome=granted":                            1,
		"distlock.server.renewals outcome=ok":                                                  1,
		"distlock.server.renewals outcome=not_held":                                            1,
		"distlock.server.limited limit=claims":                                                 1,
		"distlock.server.refused code=unauthenticated":                                         1,
		"distlock.server.ready ":                                                               1,
		"distlock.server.claims ":                                                              1,
		"distlock.server.waits ":                                                               0,
	} {
		if got, ok := seen[series]; !ok || got != want {
			t.Errorf("%s: %v, want %v", series, got, want)
		}
	}
	for series := range seen {
		if strings.Contains(series, "hidden") {
			t.Errorf("%s has a name", series)
		}
	}
}
