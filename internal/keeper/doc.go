// Package keeper keeps claims alive and knows for how long they may be trusted.
//
// # Terms
//
// A Hold is a claim that was granted to this process. Its TTL is how long the store keeps it
// after each renewal. Its trust is how long this process may believe that it
// holds the claim:
//
//	sent          a third        trust ends   the store may
//	|             |              |            give it to another
//	v             v              v            v
//	+-------------+--------------+--margin----+
//	|<----------------- TTL ----------------->|
//	              renewal, and a new sent
//
// sent is read before the request leaves. The store begins to count later than that, so trust
// ends before the claim can, however long the request or the reply were under way, as long as
// the two clocks run at the same rate up to the margin: max(TTL/100, min(TTL/10, 1 s)).
//
// # States
//
//	held --renewal failed--> at risk --renewal succeeded--> held
//	  |                         |
//	  +----- trust is over, or the store says "not held" --+--> lost
//
// # What is promised
//
//   - Trust ends by a local clock, whatever any call is doing. The listener is told, and
//     Trusted compares the clock at every call, so that a process that was paused sees
//     the loss in its first look.
//   - The clock counts the time in which the machine was suspended, on Linux. Elsewhere
//     it counts what Go's monotonic clock counts: see Clock.
//   - A renewal goes out after about a third of the TTL, and again and again after a failure while
//     there is trust. One round trip renews up to 500 holds.
//   - A hold has at most one renewal under way, and none once Stop has returned.
//   - What was lost stays lost.
//
// # What is not promised
//
// A process that is paused between its look and its deed acts too late. Nothing in the process
// can prevent that; the fence, checked by what is acted upon, does. A store whose clock jumps
// ends a claim early, and no clock here can know.
package keeper
