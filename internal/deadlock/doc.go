// Package deadlock finds deadlocks among calls that wait for locks, also across processes.
//
// A task is a call that waits, together with the leases that its context holds. The task does not
// release these leases while it waits. A [Detector] belongs to one task. After the call has waited
// for a second, the detector posts a notice for each lease of its task: a claim on a key that is
// made of the owner of the lease. Another task that is blocked by this lease reads the notice with
// one call of the store, and so knows whether the holder itself waits, and for which key.
//
// From then on the detector builds the wait-for graph again and again, starting at its own task,
// and looks for a cycle. A cycle that it sees two times, with the same owners and the same fences
// (fencing tokens), existed all the time in between. All tasks of a cycle see the same cycle and
// choose the same victim. A detector fails its own call and no other.
package deadlock
