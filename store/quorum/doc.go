// Package quorum makes one store of several independent ones: a claim is held if a majority of
// them holds it. Over independent Redis nodes this is known as Redlock.
//
// It survives the loss of a minority of its nodes. It is as safe as its nodes' clocks and
// memories: see "What is not promised".
//
// # How a claim is granted
//
// All nodes are asked at once, each within a short limit. If a majority of them grants the
// claim, it is granted. Otherwise what was granted is released everywhere, also where no
// answer came. Nodes that answer after the limit are not counted. There is no line: a
// majority of lines has no first place. Whoever waits asks again, after a pause.
//
// # Fences
//
// It is often said that Redlock cannot have fences. It can, if what was chosen is written
// back to a majority before it is used:
//
//  1. The client proposes a fence as Floor. Each node grants max(proposal, its last + Span).
//  2. Let M be the highest answer of the majority that is counted. If all of that majority answered M,
//     the fence is M. This is the usual case, and took one round trip.
//  3. Otherwise the nodes that granted are asked again with Floor M. The same owner gets the same grant, with
//     its fence raised to M. When a majority answered M, the fence is M. If that fails, all is
//     released.
//
// Claim: if an exclusive claim with fence M was held and has ended, a later exclusive claim gets a fence of
// at least M + Span, whatever the clocks say, as long as no node of the earlier majority has lost its memory.
//
// Proof: M was stored by a majority of nodes, by step 2 or 3, before the earlier Acquire returned. The later
// claim was granted by a majority. Any two majorities share a node. That node granted the
// later claim after the earlier one, for it holds one exclusive claim at a time; and it grants above
// the last fence that it has stored, which is M or more. So its answer was at least M + Span, and the
// highest answer of the later majority is no less. Step 3 only raises it.
//
// Without step 3 a third of the fences repeat or go back. After a loss of memory the
// clocks decide: the proposal is no less than the client's clock.
//
// # Nodes that forget
//
// A node that restarts without its data would grant a key again that is held. So a node which is younger than
// LongestTTL (see driver.Result.Age) is not counted: whatever it forgot has ended by then. Only if
// every node is that young, it is a new deployment, and they all count. Claims cannot live for
// longer than LongestTTL.
//
// # Renewal
//
// A renewal counts if a majority of nodes truly renewed the claim. In such a round, nodes that do not
// hold the claim are asked to grant it, with the claim's fence as Floor; they count from
// the next round on. A claim is never brought back by a renewal.
//
// # What is not promised
//
// A node whose clock jumps forward, or that loses its memory and does not know it, may give a key away that a bare
// majority holds. The fence, checked by what is acted upon, still tells the two holders
// apart in the first case. Counting needs one place that counts: limits other than Whole are refused (three
// nodes with a limit of 3 would grant up to 4). Records that are kept are
// refused too.
package quorum
