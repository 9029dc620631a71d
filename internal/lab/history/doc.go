// Package history records the operations of the clients of a lock and checks them. Every grant has
// a fencing token, which this package calls a fence.
//
// A [Recorder] records operations with one clock. Two checkers read them. [Check] sweeps over spans
// and fences in O(n log n) and is for runs of any length. The model, run by [Verify], searches for
// an order in which a lock with expiry could have given the same answers, and is for runs of up to
// some hundred operations per key.
//
//	rec := history.New() // inside the bubble, if there is one
//	h := rec.Acquire(history.Want{Client: "a", Key: "k"})
//	... acquire ...
//	h.Granted(fence, until) // or h.Waiting() and, at the end, h.Ended(history.Refused)
//	... h.Update(register, nil), h.Renew().Extended(until), h.Lost() ...
//	call := h.Release()
//	call.End(history.Answer(err))
//
//	// outside the bubble
//	verdict, err := history.Verify(rec.History(), rules, history.Search{Dir: dir, Name: "seed7"})
//
// # Terms
//
//	hold     one acquire and the operations that follow it: renewals, a release, a loss. A lease
//	         that is handed off in memory begins a new hold, with its own fence
//	span     the time in which a holder may believe that it holds: from the return of its acquire
//	         to the end of its trust, the call of its release, the report of its loss, or the end
//	         of its process, whichever is first. The end is not part of the span
//	whole    a grant whose weight is its limit: it leaves no capacity for others
//
// # Invariants
//
//	I1   a fenced resource accepts no lower fence after a higher one, and keeps every
//	     update that it acknowledged
//	I2   fences rise in the order of grants
//	I3   the weights of the spans of a key never exceed the limit
//	I4   a loss is reported to the holder before its trust ends, and before a rival is granted
//	I5   a waiter is granted or leaves within a bound after the last fault
//	I6   a key with capacity and waiters is granted within a bound
//	I7   it is granted soon after a release, after the end of trust, after a fault
//	I9   only its owner ends a claim
//	I10  every answer is one of the known kinds
//	M38  the run tested something: grants, contention, faults during holds
//	model  some order of the answers is that of a lock
//
// A history does not show I8, that nothing is left behind.
//
// # What is not checked
//
// A refusal is always accepted as correct: a queue, a claim that outlives its holder's trust and an
// orphan of an unanswered call all refuse correctly, and none of them is in the history. Claims
// that an operator breaks violate I3 and I9 on purpose: leave them out.
package history
