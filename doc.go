// Package distlock makes one thing happen at a time across processes and machines.
//
// A Locker takes locks in a store that the processes share. What it returns is a
// Lease: it lasts until Unlock or until it is lost, is renewed by itself, tells its loss in
// time, and carries a fence.
//
//	locker, err := distlock.New(store)
//	...
//	err = locker.Do(ctx, "invoice/42", func(ctx context.Context) error {
//		return charge(ctx, distlock.FromContext(ctx).Fence())
//	})
//
// # What is not promised
//
// No lock service can stop a process that was paused, by its garbage collector, its scheduler, a
// debugger or a suspended machine, between looking at its lease and acting on it. So a
// lock alone never makes anything happen "exactly once". What can be stopped is the effect: send
// Lease.Fence along with every change, and let what is changed refuse a fence that is lower than
// one it has seen. Where the protected thing cannot compare, a lock makes doing it twice rare, not
// impossible.
//
// A store that forgets (a restart without persistence, a failover that loses the last
// write) or whose clock jumps may grant a lock twice. Fences rise all the same, as the store's notes
// say. Package documentation of each store tells which faults it survives.
//
// A request that was delayed by the network may reach the store after everybody gave up on it.
// Then a lock that nobody knows of stays taken, until its TTL is over. A lease that
// was made shorter by Extend and then longer again can be cut short by the first
// request arriving last.
//
// # What is promised
//
//   - A lease is trusted only as long as no store that keeps time can have given the lock to another: trust is
//     counted from before the request was sent, by the local clock, with a margin. Err, Valid, Done and Context tell
//     its end without asking anybody, and before a rival can be granted.
//   - Fences of exclusive leases of one name rise strictly, across release, expiry and restart.
//   - First come, first served where the store can queue, among processes in turns and among the goroutines
//     of a process one by one.
//   - A wait that ends leaves nothing behind: no place in line, no lock.
//   - "Held", "unavailable", "unknown" and "lost" are different errors, and never told for each other.
//   - Nothing of a lease runs any more once Unlock has returned.
//
// # Picture
//
//	goroutines          process                          store
//
//	Lock ----+
//	Lock ----+--> line of one key --- one place -------> line of the key
//	Lock ----+        |                                      |
//	                  v                                      v
//	Lease <------- turn: one claim, 128 fences <-------- claim (owner, TTL)
//	  |               ^
//	  Unlock ---------+--> next Lease of the turn, or Release
//
// The owner of a claim is a secret that belongs to a turn. Within a turn the lock passes from goroutine to
// goroutine in memory, each time with a higher fence. A turn ends after 128 leases or 50 ms
// if another process waits.
//
// There is no reentrancy: a call that asks for what its own context holds is told so at once, with ErrDeadlock, and one whose context
// does not tell waits for itself.
//
// # Trust
//
//	held --renewal failed--> at risk --renewal succeeded--> held
//	  |                         |
//	  +--- trust is over, or the store says that it is gone ---+--> lost
//
// A lease is renewed after about a third of its TTL, again after a twentieth when that fails, and lost
// TTL - margin after the last renewal that succeeded was sent. The margin is TTL/10, at
// most a second and at least TTL/100.
package distlock
