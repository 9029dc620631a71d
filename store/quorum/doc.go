// Package quorum combines several independent stores into one: a claim is held if a majority of
// them holds it. Over independent Redis nodes this is known as Redlock.
//
// The store survives the loss of a minority of its nodes. It is as safe as the clocks and the
// memory of its nodes: see "What is not guaranteed".
//
// # How a claim is granted
//
// The store calls all nodes at once, each with the limit [Options].NodeLimit, 100 ms by default,
// and at most a tenth of the TTL. As soon as a majority has granted the claim, the claim is
// granted. Otherwise the store releases the claim on every node that may have granted it, also
// where no answer came. Answers after the limit do not count. If the votes are split, the store
// waits less long for nodes that were late before. There is no queue, because a majority of queues
// has no common order. A waiter tries again after a pause, or when claims on the key ended on a
// majority of nodes.
//
// The result is
//
//   - granted, if a majority granted it and has stored its fence (fencing token);
//   - refused, if a majority refused it; or if a majority answered, some of them refused it, and no
//     majority can hold it any more, because other owners hold parts of it;
//   - unavailable or invalid, if no node refused it and no majority can hold it;
//   - unknown otherwise: so many nodes did not answer that a majority may hold it.
//
// A part of a claim on a minority is no claim. If it cannot be released because a node does not
// answer, it ends with its TTL. All results but the first two are a [*VoteError] with the vote of
// each node.
//
// A release goes to all nodes. The claim was not held if a majority does not have it and no node
// that answered had it. If one node had it, the result is unknown: that node may have been the last
// of a majority until this release, whose calls reached the other nodes late.
//
// # Fences
//
// It is often said that Redlock cannot have fencing tokens. It can, if a majority stores the fence
// before it is used:
//
//  1. The client proposes a fence as Floor: its clock plus one second. Each node grants
//     max(proposal, its clock, its last fence + Span).
//  2. Let M be the highest fence of the lowest majority of answers. If a majority has answered M or
//     more, the fence is M. This is the usual case: all answers are equal, after one round trip.
//  3. Otherwise the store calls the nodes that granted again, with Floor M. The same owner gets the
//     same grant, with its fence raised to M. When a majority has stored M or more, the fence is M.
//     If that fails, the store releases the claim everywhere.
//
// Theorem: if an exclusive claim with fence M was held and has ended, a later exclusive claim gets
// a fence of at least M + Span, for any clocks, as long as no node of the earlier majority has lost
// its memory.
//
// Proof: a majority S of nodes had stored M or more before the earlier Acquire returned. The later
// fence is no lower than the answers of some majority Q. S and Q share a node. That node granted
// the later claim after the earlier one, because it holds one exclusive claim at a time. It grants
// at least Span above the last fence that it has stored, which is M or more. So its answer was at
// least M + Span. Step 3 only raises answers. For shared claims, the same is true relative to
// claims that had ended before the first Acquire of the shared claim. A node may forget a fence
// that its clock has passed. It still grants higher fences, by its clock or, after the clock was
// set back, by the floor that its store keeps. A node without such a floor, such as a Redis
// Cluster, may then grant lower fences.
//
// Another Acquire of a claim that is held, with a higher Floor, is step 3 alone: one round trip. A
// node that already has the claim with a higher fence, because it was slow or was topped up, counts
// as having stored the Floor.
//
// Without step 3 a third of the fences repeat or fall. After a loss of memory only the clocks keep
// the order: the proposal is no less than the client's clock. If a client's clock is more than an
// hour ahead of a node's clock, the node refuses the proposal, and the store calls it again without
// one. Grants of this client cost up to three round trips, and their fences follow the clocks of
// the nodes.
//
// # Nodes that forget
//
// A node that restarts without its data, or with data from before its last grants, would grant a
// held key again. So a node whose age (see [driver.Result]) is less than LongestTTL does not count:
// every claim that it can have forgotten has ended by then. The age of a Redis node starts again
// with every restart and every failover, even if it keeps its data on disk. No claim can live
// longer than LongestTTL.
//
// In a new deployment all nodes are new. While the oldest is younger than twice LongestTTL, a claim
// is also granted if all nodes grant it. If one of them forgets the claim then, the others remember
// it. So all nodes must be up for the first minutes.
//
// A node that does not report its age is assumed to remember.
//
// # Renewal
//
// A renewal succeeds if a majority of nodes renewed the claim. After such a round, the store tops
// up the nodes that do not hold the claim: it acquires the claim on them, with the claim's fence as
// Floor. These nodes count from the next round on. A renewal never brings back a claim. If a
// majority does not have the claim, it is not held, and the store releases what is left of it.
//
// # Order
//
// Calls about one claim go to a node one after the other, although the caller continues when a
// majority has answered. A release that overtakes its acquire would release nothing, and the
// release of a refused attempt must not undo the next attempt. A release without an answer may
// arrive later. So for LongestTTL the store does not acquire a claim of the same owner on that
// node, and a renewal on that node does not count. A waiter that still waits then uses another
// owner.
//
// # What is not guaranteed
//
//   - A node whose clock jumps forward, or that loses its memory without knowing it, may grant a
//     key that a bare majority holds. If all nodes lose their memory at once, they look like a new
//     deployment. The fences still differ and, as far as the clocks are right, rise.
//   - A request that arrives more than LongestTTL after it was sent, or twice, may be a release
//     that undoes a later grant to the same owner. The clients of nodes must not repeat requests.
//   - One owner must not acquire through two Stores at the same time, such as through two servers.
//     Calls about one claim have an order within one Store only: a late undo of one Store may
//     release the grant of the other, and another owner gets the key. So
//     [driver.Features].AnyServer is not declared.
//   - A claim that another process renews, such as one that was attached there, has the same limit
//     for LongestTTL after its grant. The Store of that process does not know the late releases of
//     earlier attempts, and counts a node that may still get one.
//   - Waiters have no order.
//   - The fence of a shared claim may be lower than those of other shared claims that ended while
//     its owner tried to acquire it: a node may have granted it to an earlier attempt whose answer
//     was lost. It is higher than those of all exclusive claims that have ended.
//   - Limits other than Whole are refused, because counting needs a single counter: three nodes
//     with a limit of 3 would grant up to 4. Records that are kept are refused too.
//   - A refusal or [Store.Show] may report another fence for a claim than its holder has, if the
//     clocks of the nodes are more than a second ahead of the holder's clock.
package quorum
