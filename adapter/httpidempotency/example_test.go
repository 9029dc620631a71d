package httpidempotency_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/adapter/httpidempotency"
	"github.com/distlock/distlock/store/mem"
)

func ExampleMiddleware() {
	locker, _ := distlock.New(mem.New()) // a real service uses a store that all its instances share
	defer locker.Close(context.Background())

	type account struct{} // the key under which the authentication stores the account in the context
	once, err := httpidempotency.Middleware(locker, 24*time.Hour, &httpidempotency.Options{
		Scope: func(r *http.Request) string { return fmt.Sprint(r.Context().Value(account{})) },
	})
	if err != nil {
		fmt.Println(err) // the store cannot keep records
		return
	}
	orders := 0
	handler := once(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		orders++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "order %d", orders)
	}))

	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/orders", http.NoBody)
		r.Header.Set(httpidempotency.Header, "8e03978e-40d5-43dd-bc93-6894a57f9324")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Body, w.Header().Get(httpidempotency.Replayed) == "true")
	}
	// Output:
	// 201 order 1 false
	// 201 order 1 true
}

func ExampleSharedScope() {
	locker, _ := distlock.New(mem.New())
	defer locker.Close(context.Background())

	// All clients are workers of one owner: any of them may repeat the request of another.
	_, err := httpidempotency.Middleware(locker, 24*time.Hour, &httpidempotency.Options{Scope: httpidempotency.SharedScope})
	fmt.Println(err)
	// Output: <nil>
}
