// Package keeper renews claims and knows how long each of them can be trusted.
//
// # Terms
//
// A [Hold] is a claim that was granted to this process. Its TTL is how long the store keeps the
// claim after each renewal. Its trust is how long this process may believe that it holds the
// claim:
//
//	sent          a third        trust ends   the store may
//	|             |              |            grant it to another
//	v             v              v            v
//	+-------------+--------------+--margin----+
//	|<----------------- TTL ----------------->|
//	              renewal, and a new sent
//
// The keeper reads sent before the request leaves. The store starts to count later than that, so
// trust ends before the claim can end, however long the request or the reply takes. This holds
// while the two clocks run at the same rate, up to the [Margin]: max(TTL/100, min(TTL/10, 1 s)).
//
// # States
//
//	held --renewal failed--> at risk --renewal succeeded--> held
//	  |                         |
//	  +--- trust ended, or the store answered "not held" ---+--> lost
//
// # Guarantees
//
//   - Trust ends by a local clock, even while a call hangs. The [Listener] is notified, and
//     [Hold.Trusted] reads the clock at every call, so that a process that was paused sees the
//     loss at its first check.
//   - On Linux the clock counts the time in which the machine was suspended. On other systems it
//     counts the same time as Go's monotonic clock: see [Clock].
//   - The keeper sends a renewal after about a third of the TTL, and tries again after each failure
//     while there is trust. One round trip renews up to 500 holds.
//   - A hold has at most one renewal in flight, and none after [Hold.Stop] has returned.
//   - A lost hold stays lost.
//
// # What is not guaranteed
//
// A process that is paused between its check and its action acts too late. Nothing in the process
// can prevent that. The fencing token can, if the resource checks it. A store whose clock jumps
// ends a claim early, and no clock in this process can detect that.
package keeper
