// Package deadlock finds deadlocks among calls that wait for locks, also across processes.
//
// A task is a call that waits, together with the leases that its context holds: the task does not
// release them while it waits. A [Detector] belongs to one task. When the call has waited for a
// second, the detector posts a notice for each lease of its task: a claim on a key that is made of
// the owner of the lease. So another task that finds this lease in its way reads, with one call of
// the store, whether the holder waits itself, and for what.
//
// From then on the detector builds the wait-for graph from time to time, starting at its own task,
// and looks for a cycle. A cycle that it sees two times, with the same owners and fences, existed
// all the time in between. All tasks of a cycle see the same cycle and choose the same victim. A
// detector fails its own call and no other.
package deadlock
