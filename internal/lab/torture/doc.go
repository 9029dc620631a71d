// Package torture lets clients contend for locks in a store, does to them what happens to
// programs and networks, and has the history judged.
//
//	this process                          processes of their own
//	  client c1 -> bad link --+             +-- bad link <- client p1.1 (paused, killed)
//	  client c2 -> bad link --+--> store <--+-- bad link <- client p2.1
//
// A seed decides everything that can be decided before the run: who is stopped, killed or cut off
// and when about, how bad each link is, what each client draws. The rest is up to the
// store, the machine and the scheduler. So the same seed is the same plan and not the same history.
//
// It breaks clients and links, never the store, and uses names that begin with a prefix of its
// own. All processes take down what they do by the monotonic clock that they share; package
// history judges the whole.
//
// The machine may stop a process for a moment by itself. That is noticed and no
// lock is blamed for it: see stalls.
package torture
