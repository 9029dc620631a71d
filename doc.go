// Package distlock provides distributed locks: mutexes, read/write locks, semaphores, rate limits,
// leader election and run-once, across processes and machines.
//
// A [Locker] acquires a [Lease] in a store that the processes share. The lease is renewed in the
// background. Its context is cancelled before another process can acquire the lock, and
// [Lease.Fence] returns a fencing token ("fence" for short) that grows with every exclusive lease
// of a name.
//
//	locker, err := open.Locker(ctx, "postgres://user@host/database")
//	...
//	err = locker.Do(ctx, "invoice/42", func(ctx context.Context) error {
//		return charge(ctx, distlock.FromContext(ctx).Fence())
//	})
//
// The stores, under github.com/distlock/distlock/store:
//
//	postgres                                  tables in PostgreSQL
//	pgadvisory                                advisory locks of PostgreSQL
//	mysql                                     tables in MariaDB
//	redis/rueidisstore, redis/goredisstore    Redis and Valkey: one node, Sentinel, Cluster
//	quorum                                    a majority of nodes: Redlock
//	etcd                                      an etcd cluster
//	sqlite                                    a file that the processes of one host share
//	mem                                       the memory of one process, for tests
//
// Package open links all of them and opens one by its URL. A program with one store imports that
// store and calls [New].
//
// If the lease is lost while the function runs, its context ends with the cause [ErrLost], and
// [Locker.Do] returns an error.
//
// # What is not promised
//
// No lock service can stop a process that was paused between a look at its lease and its next
// action: by its garbage collector, its scheduler, a debugger or a suspended machine. So a lock
// alone never makes anything happen exactly once. The effect can be stopped: send the fence along
// with every change, and let the changed resource refuse a fence that is lower than one it has
// seen. Where the resource cannot compare, a lock makes a second execution rare, not impossible.
//
// A store that forgets (a restart without persistence, a failover that loses the last write) or
// whose clock jumps may grant a lock twice. Fences rise all the same, as the documentation of the
// stores says: each store documents the faults that it survives.
//
// A request that was delayed by the network may reach the store after its caller gave up. Then a
// claim that nobody knows stays in the store until its TTL has passed. A lease that was shortened
// by [Lease.Extend] and then extended again can be cut short by the first request arriving last.
//
// # What is promised
//
//   - A lease is trusted only while no store that keeps time can have granted the lock to another.
//     Trust counts from before the request was sent, by the local clock, with a margin.
//     [Lease.Err], [Lease.Valid], [Lease.Done] and [Lease.Context] report its end without a call of
//     the store, and before another can be granted the lock.
//   - Fences of exclusive leases of one name rise strictly, across release, expiry and restart.
//   - First come, first served where the store can queue: among processes tenure by tenure, among
//     the goroutines of a process one by one.
//   - A wait that ends leaves nothing behind: no queue entry, no lock.
//   - Held, unavailable, unknown and lost are different errors, and none is returned for another.
//   - Nothing of a lease runs any more when Unlock has returned.
//
// # How it works
//
//	goroutines          process                             store
//
//	Lock ----+
//	Lock ----+--> queue of one key --- one queue entry ---> queue of the key
//	Lock ----+        |                                         |
//	                  v                                         v
//	Lease <------- tenure: one claim, 128 fences <-------- claim (owner, TTL)
//	  |               ^
//	  Unlock ---------+--> next Lease of the tenure, or Release
//
// The owner of a claim is a secret that belongs to a tenure. Within a tenure the lock is handed off
// from goroutine to goroutine in memory, each time with a higher fence. A tenure ends after 128
// leases, or after 50 ms if another process waits. While a process holds the lock, its waiters have
// no entry in the store.
//
// There is no reentrancy. A call for a lock that its own context holds fails at once with
// [ErrDeadlock]. If its context does not carry that lease, the call waits for itself.
//
// # Trust
//
//	held --renewal failed--> at risk --renewal succeeded--> held
//	  |                         |
//	  +--- trust has ended, or the store reports the claim as gone ---+--> lost
//
// A lease is renewed after about a third of its TTL, and again after a twentieth when that fails.
// It is lost TTL - margin after the last successful renewal was sent. The margin is TTL/10, at most
// a second and at least TTL/100.
package distlock
