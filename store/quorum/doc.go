// Package quorum makes one store of several independent ones: a claim is held if a majority of
// them holds it. Over independent Redis nodes this is known as Redlock.
//
// It survives the loss of a minority of its nodes. It is as safe as its nodes' clocks and
// memories: see "What is not promised".
//
// # How a claim is granted
//
// All nodes are asked at once, each within Options.NodeLimit, 100 ms, and at most a tenth of the TTL. If a majority of them grants the
// claim, it is granted, as soon as that is known. Otherwise what was granted is released, also where no
// answer came. Answers after the limit are not counted. There is no line: a majority of lines has no first
// place. Whoever waits asks again, after a pause, or when claims on the key ended on a majority of nodes.
//
// The answer is
//
//   - granted, if a majority granted it and has stored its fence;
//   - refused, if a majority refused it; or a majority answered, some of them refused it, and no majority
//     can hold it any more: others hold parts of it;
//   - unavailable or invalid, if nobody refused it, and no majority can hold it;
//   - unknown otherwise: so many nodes were silent that a majority may hold it.
//
// A part of a claim on a minority is no claim. What is left of one, where a node was silent, ends with its TTL. All
// answers but the first two are a *VoteError with the vote of each node.
//
// A release is sent to all nodes. The claim was not held if a majority does not have it and no node that answered had it. If one had it, that may
// have been the last of a majority until this very release, whose other parts came late: then it is unknown.
//
// # Fences
//
// It is often said that Redlock cannot have fences. It can, if what was chosen is stored by
// a majority before it is used:
//
//  1. The client proposes a fence as Floor: its clock and a second. Each node grants max(proposal, its clock, its last + Span).
//  2. Let M be the highest of the lowest majority of answers. If a majority has answered M or more,
//     the fence is M. This is the usual case, where the answers are alike, and took one round trip.
//  3. Otherwise the nodes that granted are asked again with Floor M. The same owner gets the same grant, with
//     its fence raised to M. When a majority has stored M or more, the fence is M. If that fails, all is released.
//
// Claim: if an exclusive claim with fence M was held and has ended, a later exclusive claim gets a fence of
// at least M + Span, whatever the clocks say, as long as no node of the earlier majority has lost its memory.
//
// Proof: a majority S of nodes had stored M or more before the earlier Acquire returned. The later
// fence is no lower than the answers of some majority Q. S and Q share a node. That node granted the
// later claim after the earlier one, for it holds one exclusive claim at a time; and it grants Span above
// the last fence that it has stored, which is M or more. So its answer was at least M + Span. Step 3
// only raises answers. For claims that are shared, the same holds for those that had ended before they were first
// asked for. A node may forget a fence that its clock has passed: it grants
// above it all the same, by its clock or, after the clock was set back, by the floor that its store
// keeps. A node without a floor, such as a Redis Cluster, may go back then.
//
// Asking again for a claim that is held, with a higher Floor, is step 3 alone: one round trip. A node
// that has it since before with a higher fence, because it was slow or was topped up, counts as having stored the Floor.
//
// Without step 3 a third of the fences repeat or go back. After a loss of memory the
// clocks decide: the proposal is no less than the client's clock. A client whose clock is more than an hour
// ahead of a node's is refused its proposal by that node, and asks it again without one: its grants cost up to three
// round trips, and their fences follow the nodes' clocks.
//
// # Nodes that forget
//
// A node that restarts without its data, or with data from before its last grants, would grant a
// key again that is held. So a node which is younger than LongestTTL (see driver.Result.Age) is not
// counted: all that it can have forgotten has ended by then. A Redis node is young after every
// restart and every failover, whatever it keeps on disk. Claims cannot live for
// longer than LongestTTL. In a new deployment all nodes are young: as long as the oldest is younger than twice LongestTTL, a
// claim is also granted if all nodes grant it. One that forgets does no harm then: the others
// remember. So for the first minutes all nodes must be up.
//
// A node that does not report its age is believed to remember.
//
// # Renewal
//
// A renewal counts if a majority of nodes truly renewed the claim. Nodes that do not hold
// it are asked to grant it after such a round, with the claim's fence as Floor; they count from
// the next round on. A claim is never brought back by a renewal. One that a majority has not is not held, and the
// rest of it is released.
//
// # Order
//
// Calls about one claim are made to a node one after the other, though the caller goes on when a majority
// has answered: a release that overtakes its acquire releases nothing, and the release of a try that was refused
// must not undo the next. If a release is not answered, it may arrive later; for LongestTTL the node is not asked for a
// claim of the same owner. Whoever still waits then asks with another owner.
//
// # What is not promised
//
//   - A node whose clock jumps forward, or that loses its memory and does not know it, may give a key away that a bare
//     majority holds. If all nodes lose their memory at once, they look like a new deployment. The fences still differ and,
//     as far as the clocks go, rise.
//   - A request that arrives more than LongestTTL after it was sent, or twice, may be a release that undoes a
//     later grant to the same owner. Nodes' clients must not repeat requests.
//   - One owner that acquires through two stores at the same time, as through two servers. Calls
//     about
//     one claim have an order within one Store only: a late undo of the one may release what the
//     other was
//     granted, and a rival gets it. A claim is acquired through one Store, and Features.AnyServer is not declared.
//   - Order among those who wait.
//   - That the fence of a shared claim is above those of other shared claims that ended while its owner asked for it in vain: a node
//     may have granted it to an earlier try, unheard. It is above those of all exclusive claims that have ended.
//   - Counting needs one place that counts: limits other than Whole are refused (three nodes with a
//     limit of 3 would grant up to 4). Records that are kept are refused too.
//   - The fence that a refusal or Show tells of another's claim is what nodes tell: if their clocks are more than a second ahead of
//     the holder's, it may differ from what the holder was told.
package quorum
