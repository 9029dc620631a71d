package server

import (
	"context"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
)

// operations are the parts of a server that its operator sees.
type operations struct {
	metrics *metrics
	quota   *quota
	gate    *gate
	conns   *conns
	health  health
}

// operate returns the store behind the limits and metrics of the server.
func (s *Server) operate(ctx context.Context, store driver.Store) (driver.Store, error) {
	m, meter, err := newMetrics(ctx, s.opt.Meter)
	if err != nil {
		return nil, err
	}
	s.op.metrics = m
	s.op.quota = newQuota(s.opt.Limits, m.limit)
	s.op.gate = newGate(store, s.op.quota, m)
	s.op.conns = newConns(s.op.quota.Conns, m.limit)
	return s.op.gate, s.observe(meter)
}

// handlerOptions are those of every service of the API.
func (s *Server) handlerOptions() connect.HandlerOption {
	return connect.WithHandlerOptions(
		connect.WithReadMaxBytes(maxMessage), connect.WithCompressMinBytes(minCompressed),
		connect.WithInterceptors(newMeasured(s.op.metrics, s.opt.Tracer)),
	)
}

// isKeep reports whether a call keeps or ends a claim. Such calls have a budget of their own.
func isKeep(path string) bool {
	return strings.HasSuffix(path, "/Renew") || strings.HasSuffix(path, "/Release") || strings.HasSuffix(path, "/ReleaseAll")
}

// operationRoutes are the routes for probes and tools.
func (s *Server) operationRoutes() []Route {
	services := services()
	reflector := grpcreflect.NewStaticReflector(services...)
	probes := s.Probes()
	routes := []Route{{"/livez", Public, probes}, {"/readyz", Public, probes}}
	add := func(class Class) func(string, http.Handler) {
		return func(pattern string, h http.Handler) { routes = append(routes, Route{pattern, class, h}) }
	}
	add(Public)(grpchealth.NewHandler(checker{s, services}, connect.WithReadMaxBytes(maxMessage)))
	add(Observer)(grpcreflect.NewHandlerV1(reflector, connect.WithReadMaxBytes(maxMessage)))
	add(Observer)(grpcreflect.NewHandlerV1Alpha(reflector, connect.WithReadMaxBytes(maxMessage)))
	return routes
}

// Probes returns a handler for /livez and /readyz alone, for a listener of its own. The server has
// them too.
func (s *Server) Probes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) { answerProbe(w, nil) })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) { answerProbe(w, s.ready(r.Context())) })
	return mux
}

// services returns the names of the services of the API.
func services() (names []string) {
	protoregistry.GlobalFiles.RangeFilesByPackage(api.File_distlock_v1_store_proto.Package(), func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			names = append(names, string(f.Services().Get(i).FullName()))
		}
		return true
	})
	return names
}

// count counts a call against the rate of its caller.
func (s *Server) count(ctx context.Context, r *http.Request) error {
	return s.op.quota.call(ctx, isKeep(r.URL.Path))
}
