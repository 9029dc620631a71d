package httpratelimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/adapter/httpratelimit"
	"github.com/distlock/distlock/store/mem"
)

func ExampleMiddleware() {
	locker, _ := distlock.New(mem.New())
	limiter, err := locker.Limiter(2, time.Minute)
	if err != nil {
		fmt.Println(err)
		return
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	handler := httpratelimit.Middleware(limiter, &httpratelimit.Options{
		Key: func(r *http.Request) string { return "user/" + r.Header.Get("User") },
	})(hello)

	for range 3 {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.Header.Set("User", "ann")
		handler.ServeHTTP(w, r)
		fmt.Printf("%d, retry after %q\n", w.Code, w.Header().Get("Retry-After"))
	}
	// Output:
	// 200, retry after ""
	// 200, retry after ""
	// 429, retry after "60"
}
