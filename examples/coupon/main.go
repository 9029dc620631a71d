// Command coupon redeems a coupon once, although two instances of a shop get a hundred requests for
// it at the same time.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/store/sqlite"
)

const requests = 100

// A ledger stands for the shop's database, which all instances share. Its check and its write are
// two steps, and anything may happen between them.
type ledger struct {
	mu       sync.Mutex
	redeemed map[string]uint64 // by coupon: the fencing token of the redemption
}

func (l *ledger) used(code string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.redeemed[code] > 0
}

// redeem rejects a fence that is not above the last one: an instance that was paused and lost its
// lock writes with such a fence.
func (l *ledger) redeem(code string, fence uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if fence <= l.redeemed[code] {
		return errors.New("too late")
	}
	l.redeemed[code] = fence
	return nil
}

var errUsed = errors.New("the coupon was redeemed already")

// shop is one instance.
func shop(locker *distlock.Locker, db *ledger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /redeem/{code}", func(w http.ResponseWriter, r *http.Request) {
		code := r.PathValue("code")
		err := locker.Do(r.Context(), "coupon/"+code, func(ctx context.Context) error {
			if db.used(code) {
				return errUsed
			}
			time.Sleep(10 * time.Millisecond) // compute the price, send a mail
			return db.redeem(code, distlock.FromContext(ctx).Fence())
		})
		switch {
		case errors.Is(err, errUsed):
			http.Error(w, err.Error(), http.StatusConflict)
		case err != nil:
			http.Error(w, "try again", http.StatusServiceUnavailable)
		}
	})
	return mux
}

func main() {
	log.SetFlags(0)
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "coupon")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	db := &ledger{redeemed: map[string]uint64{}}
	var urls []string
	for range 2 {
		store, err := sqlite.Open(ctx, filepath.Join(dir, "locks.db"), nil)
		if err != nil {
			return err
		}
		defer store.Close()
		locker, err := distlock.New(store, distlock.MaxWait(30*time.Second))
		if err != nil {
			return err
		}
		defer locker.Close(ctx)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		// The time limit includes the time that a busy client takes to send its first request.
		server := &http.Server{Handler: shop(locker, db), ReadHeaderTimeout: time.Minute}
		defer server.Close()
		go func() { _ = server.Serve(listener) }()
		urls = append(urls, "http://"+listener.Addr().String())
	}
	answers, err := sendAll(urls)
	if err != nil {
		return err
	}
	fmt.Printf("%d requests at the same time: %d redeemed the coupon, %d were refused because it is used\n",
		requests, answers[http.StatusOK], answers[http.StatusConflict])
	return nil
}

// sendAll sends all requests at the same time, and counts the status codes.
func sendAll(urls []string) (map[int]int, error) {
	var (
		mu      sync.Mutex
		wg      sync.WaitGroup
		failed  error
		answers = map[int]int{}
	)
	for i := range requests {
		wg.Go(func() {
			resp, err := http.Post(urls[i%len(urls)]+"/redeem/SUMMER", "", nil)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = err
				return
			}
			resp.Body.Close()
			answers[resp.StatusCode]++
		})
	}
	wg.Wait()
	http.DefaultClient.CloseIdleConnections()
	return answers, failed
}
