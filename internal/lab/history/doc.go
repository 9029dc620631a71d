// Package history records what clients of a lock did and judges it.
//
// A Recorder takes down operations with one clock. Two judges read them. Check sweeps
// over spans and fences in O(n log n) and is for runs of any length. The model, run by
// Judge, searches for an order in which a lock with expiry could have given the
// same answers, and is for runs of up to some hundred operations a key.
//
//	rec := history.New() // inside the bubble, if there is one
//	h := rec.Ask(history.Want{Client: "a", Key: "k"})
//	... acquire ...
//	h.Granted(fence, until) // or h.Waiting() and, in the end, h.Ended(history.Refused)
//	... h.Update(register, nil), h.Renew().Extended(until), h.Lost() ...
//	call := h.Release()
//	call.End(history.Answer(err))
//
//	verdict, err := history.Judge(rec.History(), rules, history.Search{Dir: dir, Name: "seed7"}) // outside
//
// # Terms
//
//	hold     one acquire and all that follows it: renewals, a release, a loss. A lease
//	         that is handed on in memory begins a hold of its own, with its own fence
//	span     when a holder may believe that it holds: from the return of its acquire to the
//	         end of its trust, the call of its release, the loss it was told of, or the end
//	         of its process, whichever is first. The end is not part of the span
//	whole    a grant whose weight is its limit: it leaves room for nobody
//
// # Invariants
//
//	I1   a fenced resource takes no lower fence after a higher one, and keeps every
//	     update that it acknowledged
//	I2   fences rise in the order of grants
//	I3   the weights of the spans of a key never exceed the limit
//	I4   a holder is told of its loss before its trust ends, and before a rival is granted
//	I5   a waiter is served or leaves within a bound after the last fault
//	I6   a key with room and waiters is granted within a bound
//	I7   it is granted soon after a release, after the end of trust, after a fault
//	I9   nobody but its owner ends a claim
//	I10  every answer is one of the known kinds
//	M38  the run tested something: grants, contention, faults over holds
//	model  some order of the answers is that of a lock
//
// I8, that nothing is left behind, cannot be seen in a history.
//
// # What is not judged
//
// A refusal is always believed: a line, a claim that outlives its holder's trust and an
// orphan of an unanswered call all refuse truly, and none of them is in the history.
// Claims that are broken by hand break I3 and I9 by intent: leave them out.
package history
