// Package driver is the contract between distlock and the stores it runs on.
//
// It is the document for whoever writes a store. A store that follows it passes the
// suite in package drivertest, and then carries every kind of lock: no kind has code of
// its own in a store.
//
// # The one idea
//
// A store keeps claims. A claim stands on a key, belongs to an owner, has a weight and
// lives for a TTL unless it is renewed. A store grants a claim if there is room:
//
//	the weights of the live claims on a key never exceed
//	the limit of the claim that was newly granted last
//
// A mutex is a claim of weight Whole under the limit Whole. A reader is a claim of weight 1
// under the limit Whole. One of n slots is a claim of weight 1 under the limit n. A rate
// limit is a claim that nobody renews or releases. The store sees weights and
// limits and none of these words.
//
// # Life of a claim
//
//	        Acquire, no room            Acquire, room and first in line
//	nothing ----------------> place ------------------------------+
//	   |                        |                                 v
//	   |                        +--> Release, or not asked for   claim --> Release, TTL over, Break
//	   |                             again within QueueTTL           ^  |
//	   +------------ Acquire, room and no line -------------------+  +--> Renew: a new TTL
//	                                                              |       Renew with Keep: a record
//	                                                              +------ Acquire: the same, a full TTL
//
// What has ended never comes back. A caller takes a new owner for every claim.
//
// # Four answers
//
// Every call ends in one of four ways, and a store must never say one for another:
//
//   - granted (or done): a Result with Granted, or a nil error;
//   - refused: a Result without Granted, or ErrNotHeld. It is definite;
//   - unavailable: an error that is ErrUnavailable. It is definite: nothing was changed. ErrInvalid
//     is definite too;
//   - unknown: any other error. The call may have taken effect, now or a little later. A
//     timeout is unknown, and so are a lost connection and the end of ctx while a call is
//     under way. The caller repairs it by making the same call again, or by Release.
//
// With a ctx that is over before the call, a store may do nothing and return its error.
//
// The library returns an error of the first Acquire to its caller. An owner that is waiting
// attempts again after ErrUnavailable and after an unknown outcome, and so does a renewal while
// there is trust, and Release for some seconds. So a store does not repeat a call. The one
// exception is a transaction that the server has surely rolled back (a deadlock, a serialization
// failure): a store may repeat it a few times, or return ErrUnavailable, which costs the first
// caller an error.
//
// # Time
//
// Durations cross this contract, never times of day. A store begins to count a TTL when
// it serves the call, by a clock of its own that it reads after it has the key to itself,
// never by the time at which a transaction began. A claim lives for at least its TTL and may
// live a little longer, never shorter: a store with a coarse clock rounds up.
// The caller counts from before it sent the call, and stops trusting a claim before the
// store may end it.
//
// Acquire, Renew, Release and Break of one key take effect one after the other. A store that does
// not lock the key for a renewal has an Acquire that counts a claim as live while its renewal is
// under way: a renewal that returned nil keeps others out until the new end, also if it was
// committed after the old end.
//
// # Acquire, step by step
//
//	lock the key                         // all of this is one atomic step
//	now = clock                          // read with the lock in hand
//	remove claims and queue entries with ends <= now
//	if Floor > max(last, micros of now) + MaxAhead: return ErrInvalid
//	if the owner has a claim:            // an answer was lost, or the owner lowers its weight
//	    if it is no record: claim.ends = now + TTL
//	    claim.weight = min(claim.weight, Weight)
//	    claim.fence  = max(claim.fence, Floor)
//	    last         = max(last, claim.fence)
//	    wake the head of the queue if it has room now
//	    return granted, with the fence of the claim
//	ahead = the entries before the owner's; all of them if it has none
//	full  = the weights of all claims + Weight > Limit
//	if full or ahead is not empty:
//	    if QueueTTL > 0: add an entry of the owner at the end, or replace the one it has where it stands
//	                  entry.ends = now + QueueTTL
//	    return refused; Retry and Blocker are about ahead, and about the claims if full
//	fence = max(last + Span, micros of now, Floor)
//	if fence > MaxFence - Span: return ErrUnavailable
//	last = fence
//	remove the owner's entry, add the claim with ends = now + TTL
//	wake the head of the queue if it has room too
//	return granted and fresh, with the fence
//
// # Fences
//
// A grant is numbered. If Features.Fence is declared:
//
//   - fences are above 0 and below MaxFence;
//   - a grant of weight Whole has a fence at least Span above that of every grant on the same key before
//     it: across release, the end of a TTL, Break, a restart of the store and clean-up;
//   - any other grant has a fence at least Span above those of all claims on the key that had ended before it;
//   - the grant is issued in the same atomic step as the fence;
//   - being granted again does not change the fence, but for a higher Floor;
//   - with Floor, the fence is at least Floor. A Floor that lies more than MaxAhead beyond both
//     the store's clock (in microseconds since 1970) and the key's last fence is ErrInvalid, whether the
//     claim would be granted, granted again or refused;
//   - a higher Floor of a claim that is held may fall among the fences of another live claim: only later
//     grants stand above it;
//   - if fewer than Span fences are left below MaxFence, Acquire returns ErrUnavailable.
//
// The usual way is max(last + Span, clock in microseconds), where last is the
// highest fence that the key has given out, Floors of grants included and Floors of refusals not. A store keeps last until its own clock has passed it, and ten
// minutes more; then nothing of an idle key need stay behind. TTLs are best counted by a clock that
// nobody sets, fences by the time of day. A store that forgets its claims in a restart (it does not
// declare Detached, or has no disk) has the clock alone to keep its fences rising.
//
// # The line
//
// If Features.Queue is declared, places on a key form a line in order of arrival. Nobody passes:
// while a live place stands before it, or anyone in line if it has no place itself, a claim is
// refused even if there is room for it. A claim that is held already is not in line. Whenever
// the head of the line might be granted (a release, a lowered weight, a place given up, a grant that leaves room), the
// store wakes the head's watcher, if it has the verb Watch, and no other. A record that is kept wakes all in line, since all may
// read it. The end of a TTL need wake nobody: the head was told in Result.Retry when to ask.
//
// A store may grant the head its claim at the moment of a release, before it asks, but only with the rest
// of that place's life for a TTL. The head's next Acquire makes it a full one, as for every
// claim that is held.
//
// # What a store must not do
//
// Wait. Repeat. Renew by itself. Make up owners. Compare its clock with a client's. Tell an owner
// to anyone: a Claim carries its Tag. Fold, trim or interpret keys: two keys are the same if their
// bytes are the same, and every byte string is a key. Leave anything behind for good on a key that
// is idle; to clear up during later calls, on any key, is enough. The suite gives a store two
// seconds and 64 pairs of Acquire and Release on another key for what ten keys have left.
//
// # Who closes a store
//
// Its maker. Close is not part of the contract, and the library never calls it.
package driver
