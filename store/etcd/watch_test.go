package etcd

import (
	"testing"
	"testing/synctest"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/distlock/distlock/driver"
)

// The first wake-up after a pushed grant says so to a watcher that receives at this moment, whether
// or not others wait behind it: after a plain one it would attempt.
func TestWatches_pushed(t *testing.T) {
	for behind := range 2 {
		synctest.Test(t, func(t *testing.T) {
			s := &Store{prefix: "p/"}
			ws, k := &watches{store: s}, s.space("key")
			kv := func(key string, revision, lease int64) *mvccpb.KeyValue {
				return &mvccpb.KeyValue{
					Key: []byte(key), CreateRevision: revision, ModRevision: revision, Lease: lease,
					Value: record{Weight: driver.Whole, Limit: driver.Whole}.encode(),
				}
			}
			gone := func(key string) *clientv3.Event {
				return &clientv3.Event{Type: mvccpb.Event_DELETE, Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: 9}}
			}
			w := &sub{owner: "head", wake: make(chan driver.Wake, 1)}
			subs := map[*sub]struct{}{w: {}}
			m := &mirror{space: k, subs: subs, byOwner: map[string]map[*sub]struct{}{w.owner: subs}}
			kvs := []*mvccpb.KeyValue{kv(k.claim("holder"), 1, 1), kv(k.entry("head"), 2, 2), kv(k.entry("next"), 3, 3)}
			ws.load(m, stateOf(k, 3, kvs[:2+behind]))
			<-w.wake
			var got driver.Wake
			go func() { got = <-w.wake }()
			synctest.Wait()                // it receives
			ws.apply(m, []*clientv3.Event{ // as a release writes them
				gone(k.claim("holder")), gone(k.entry("head")), {Type: mvccpb.Event_PUT, Kv: kv(k.claim("head"), 9, 2)},
			})
			synctest.Wait()
			if want := (driver.Wake{Granted: true, Fence: fenceOf(9), Behind: behind}); got != want {
				t.Errorf("with %d behind: %+v, want %+v", behind, got, want)
			}
		})
	}
}
