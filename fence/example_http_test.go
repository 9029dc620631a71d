package fence_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/distlock/distlock/fence"
)

func quoteServer(mux *http.ServeMux, register fence.Register, put http.Handler) {
	key := func(r *http.Request) string { return "invoice/" + r.PathValue("id") }
	guarded := fence.Middleware(register, key, nil) // 409 stale, 400 invalid or of another lock, 428 missing
	mux.Handle("PUT /invoice/{id}", guarded(put))
}

func quoteClient(ctx context.Context, client *http.Client, url string, lease fence.Lease) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, url+"/invoice/42", nil)
	if err != nil {
		return nil, err
	}
	if err := fence.SetHeader(r.Header, lease); err != nil {
		return nil, err
	}
	return client.Do(r)
}

// status sends one request to a service that is guarded by a register.
func status(register fence.Register, lease fence.Lease) int {
	mux := http.NewServeMux()
	quoteServer(mux, register, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server := httptest.NewServer(mux)
	defer server.Close()
	res, err := quoteClient(context.Background(), server.Client(), server.URL, lease)
	if err != nil {
		panic(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}

func ExampleMiddleware() {
	ctx, db, guard := context.Background(), shop(), fence.Table{}
	defer db.Close()
	if err := guard.Ensure(ctx, db); err != nil {
		panic(err)
	}
	register := guard.Register(db)
	fmt.Println(status(register, lock("invoice/42")))
	fmt.Println(status(register, earlier("invoice/42")))
	fmt.Println(status(register, lock("invoice/43")))
	// Output:
	// 200
	// 409
	// 400
}

func ExampleTable_Register() {
	ctx, db, guard := context.Background(), shop(), fence.Table{}
	defer db.Close()
	if err := guard.Ensure(ctx, db); err != nil {
		panic(err)
	}
	register := guard.Register(db) // all instances of a service have one on the same database
	fmt.Println(register.Advance(ctx, earlier("ledger")))
	// Output: <nil>
}

func ExampleSetHeader() {
	h := http.Header{}
	if err := fence.SetHeader(h, earlier("invoice/42")); err != nil {
		panic(err)
	}
	fmt.Println(h.Get("Distlock-Fence"))
	// Output: 1;exclusive;invoice%2F42
}

func ExampleTransport() {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Header.Get(fence.Header))
	}))
	defer server.Close()
	client := &http.Client{Transport: fence.Transport(server.Client().Transport)}

	ctx, err := fence.NewContext(context.Background(), earlier("invoice/42"))
	if err != nil {
		panic(err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, server.URL, nil)
	if err != nil {
		panic(err)
	}
	res, err := client.Do(r)
	if err != nil {
		panic(err)
	}
	res.Body.Close()
	// Output: 1;exclusive;invoice%2F42
}

func ExampleNewContext() {
	ctx, err := fence.NewContext(context.Background(), earlier("invoice/42"))
	p, ok := fence.FromContext(ctx)
	fmt.Println(p, ok, err)
	// Output: 1;exclusive;invoice%2F42 true <nil>
}

func ExampleFromContext() {
	put := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { // behind Middleware
		p, ok := fence.FromContext(r.Context())
		fmt.Println(p.Name(), ok)
	})
	ctx, err := fence.NewContext(context.Background(), earlier("invoice/42"))
	if err != nil {
		panic(err)
	}
	put.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPut, "/", nil))
	// Output: invoice/42 true
}
