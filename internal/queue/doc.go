// Package queue acquires claims for the calls of one process, and hands them on among these calls.
//
// # Parts
//
// A [Manager] has one key for each key of the store that the process holds, attempts or waits for.
// A key has the tenures of this process, its waiters, and a runner while one is needed.
//
//	Call      one call: what it wants, how long it waits                  call.go, acquire.go
//	key       the calls and claims of this process for one key            key.go
//	Waiter    a call that waits, in order of arrival                      waiter.go
//	runner    a goroutine that attempts the store for the first waiter    runner.go
//	entry     the runner's entry in the queue of the store                entry.go
//	tenure    one claim of this process                                   tenure.go
//	Lease     a tenure in the hands of one call                           lease.go, end.go
//	          the calls of the store, and how long each may take          store.go
//
// # How a call gets its claim
//
// A call that finds nobody before it attempts the store itself. All others wait, in order of
// arrival. A waiter gets the claim in one of two ways: from a tenure of this process that ends and
// is handed off, without a call of the store; or from the runner, which attempts the store for the
// first waiter.
//
//	Acquire -> admit --- free ------> attempt --- granted ------------------> Lease
//	             |                      | refused                               ^
//	             +--- key in use --> enqueue -> await                           |
//	                                    ^                                       |
//	             runner: entry, attempt, sleep, pushed grant -- deliver --------+
//	             tenure that ends: handOff -- deliver --------------------------+
//
// While this process holds a key exclusively, its waiters have no entry in the queue of the store.
// The runner takes one entry for all waiters of the process, when the store has refused it.
//
// # A lease's end
//
//	held -- End --> ending -- answered --> ended
//	 |                |  ^
//	 | lost           |  | End again
//	 v                v  |
//	ended         unanswered
//
// # Locks
//
// Manager.mu guards every key, waiter, tenure and lease. It is taken before the keeper's own lock
// and never held during a call of the store, or of the Event and Waits of a [Caller]. A function
// whose name ends in Locked needs Manager.mu, and no function returns with another state of the
// lock than it was called with.
package queue
