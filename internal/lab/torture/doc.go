// Package torture lets clients contend for locks in a store, produces the faults of programs and
// networks, and checks the history.
//
//	this process                          separate processes
//	  client c1 -> bad link --+             +-- bad link <- client p1.1 (paused, killed)
//	  client c2 -> bad link --+--> store <--+-- bad link <- client p2.1
//
// A seed decides everything that can be decided before the run: the clients that are paused, killed
// or cut off and roughly when, the faults of each link, the random choices of each client.
// Everything else depends on the store, the machine and the scheduler. The same seed is therefore
// the same plan, but not the same history.
//
// The package breaks clients and links, never the store, and uses names that begin with a unique
// prefix. All processes record their operations by the monotonic clock that they share. Package
// history checks the merged history.
//
// The machine may stop a process for a moment by itself. Such a stall is recorded, and no lock is
// blamed for it: see stalls.
package torture
