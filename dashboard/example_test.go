package dashboard_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/dashboard"
	"github.com/distlock/distlock/store/mem"
)

func ExampleNew() {
	ctx := context.Background()
	recorder := dashboard.NewRecorder(mem.New())
	locker, err := distlock.New(recorder, distlock.Holder("ci-1"))
	if err != nil {
		panic(err)
	}
	defer locker.Close(ctx)
	if _, err := locker.Lock(ctx, "deploy"); err != nil {
		panic(err)
	}

	pages := dashboard.New(recorder, dashboard.Options{}) // everybody may look, and nobody may break
	defer pages.Close()
	mux := http.NewServeMux()
	mux.Handle("/admin/", http.StripPrefix("/admin", pages))

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/admin/locks/lock/deploy", nil))
	fmt.Println(w.Code, strings.Contains(w.Body.String(), "Held by ci-1."))
	// Output: 200 true
}
