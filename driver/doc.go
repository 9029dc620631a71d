// Package driver is the contract between distlock and the stores it runs on.
//
// It is written for authors of stores. A store that follows it passes the suite in package
// drivertest and supports every kind of lock: a store has no code for any single kind.
//
// # Claims
//
// A store keeps claims. A claim is made on a key, belongs to an owner, has a weight, and lives for
// a TTL unless it is renewed. A store grants a claim if the key has capacity for it:
//
//	the weights of the live claims on a key never exceed
//	the limit of the claim that was newly granted last
//
// Every kind of lock is a way to fill in weight and limit:
//
//	mutex        weight Whole   limit Whole
//	reader       weight 1       limit Whole
//	one of n     weight 1       limit n
//	rate limit   weight w       limit n       never renewed, never released
//
// A store knows weights and limits only. It does not know which kind of lock they stand for.
//
// # Life of a claim
//
//	            Acquire, no capacity
//	nothing ---------------------------> queue entry ---> gone: Release, or no Acquire
//	   |                                      |                 within QueueTTL
//	   | Acquire, capacity                    | Acquire, capacity
//	   | and no queue                         | and first in the queue
//	   v                                      |
//	 claim <----------------------------------+
//	  |  ^
//	  |  +-- Renew: a new TTL
//	  |      Renew with Keep: a record
//	  |      Acquire: the same claim, a full TTL
//	  v
//	 ended: Release, end of TTL, Break
//
// A claim that has ended never comes back. A caller uses a new owner for every claim.
//
// # Outcomes
//
// Every call has one of four outcomes. A store must never report one of them for another:
//
//   - granted (or done): a [Result] with Granted, or a nil error;
//   - refused: a [Result] without Granted, or [ErrNotHeld]. The outcome is definite;
//   - unavailable: an error that is [ErrUnavailable]. The outcome is definite: the call changed
//     nothing. [ErrInvalid] is definite too;
//   - unknown: any other error. The call may have taken effect, or may take effect a little later.
//     A timeout is unknown, and so are a lost connection and the end of ctx during a call. The
//     caller repairs an unknown outcome by making the same call again, or by [Store.Release].
//
// If ctx has ended before the call, a store may do nothing and return the error of ctx.
//
// A store does not retry, because the library does:
//
//   - it returns an error of the first [Store.Acquire] to its caller;
//   - an owner that is waiting attempts again after ErrUnavailable and after an unknown outcome;
//   - a renewal is attempted again while the claim is trusted;
//   - a release is attempted again for some seconds.
//
// There is one exception: a transaction that the server has certainly rolled back (a deadlock, a
// serialization failure). A store may repeat it a few times, or return ErrUnavailable; then the
// first caller gets an error.
//
// # Time
//
// Durations cross this contract, never times of day. A store starts to count a TTL when it serves
// the call. It uses its own clock and reads it while it holds the lock of the key. The time at
// which a transaction began is too early. A claim lives for at least its TTL. It may live a little
// longer, never shorter: a store with a coarse clock rounds up. The caller counts from the moment
// before it sent the call, and stops trusting a claim before the store may end it.
//
// [Store.Acquire], [Store.Renew], [Store.Release] and [Break] of one key take effect one after the
// other. A store that renews without the lock of the key needs an Acquire that counts a claim as
// live while its renewal is in progress. A renewal that returned nil excludes other owners until
// the new end, even if it was committed after the old end.
//
// # Acquire, step by step
//
//	lock the key                         // all of this is one atomic step
//	now = clock                          // read while the key is locked
//	remove claims and queue entries with ends <= now
//	if Floor > max(last, micros of now) + MaxAhead: return ErrInvalid
//	if the owner has a claim:            // a reply was lost, or the owner lowers its weight
//	    if it is no record: claim.ends = now + TTL
//	    claim.weight = min(claim.weight, Weight)
//	    claim.fence  = max(claim.fence, Floor)
//	    last         = max(last, claim.fence)
//	    wake the head of the queue if there is capacity for it now
//	    return granted, with the fence of the claim
//	ahead = the entries before the owner's; all of them if it has none
//	full  = the weights of all claims + Weight > Limit
//	if full or ahead is not empty:
//	    if QueueTTL > 0: append an entry of the owner, or replace the one it has at its position
//	                  entry.ends = now + QueueTTL
//	    return refused; Retry and Blocker are about ahead, and about the claims if full
//	fence = max(last + Span, micros of now, Floor)
//	if fence > MaxFence - Span: return ErrUnavailable
//	last = fence
//	remove the owner's entry, add the claim with ends = now + TTL
//	wake the head of the queue if there is capacity for it too
//	return granted and fresh, with the fence
//
// # Fences
//
// Every grant carries a fencing token, called fence: a number that grows. If [Features].Fence is
// declared:
//
//   - a fence is above 0 and below [MaxFence];
//   - a grant of weight [Whole] has a fence at least [Span] above the fence of every earlier grant
//     on the same key: across release, the end of a TTL, Break, a restart of the store and
//     clean-up;
//   - any other grant has a fence at least Span above the fences of all claims on the key that had
//     ended before it;
//   - the fence is assigned in the same atomic step as the grant;
//   - a repeated Acquire of a held claim does not change its fence, except by a higher Floor;
//   - with Floor, the fence is at least Floor. A Floor more than [MaxAhead] beyond both the store's
//     clock (in microseconds since 1970) and the key's last fence is [ErrInvalid], whether the
//     claim would be granted, granted again or refused;
//   - a higher Floor of a held claim may raise its fence into the range of another live claim: only
//     later grants have fences above it;
//   - if fewer than Span fences are left below MaxFence, Acquire returns [ErrUnavailable].
//
// The usual formula is max(last + Span, clock in microseconds). Here last is the highest fence that
// the key has assigned. It includes the Floors of grants, not those of refusals. A store keeps last
// until its own clock has passed it, and ten minutes more. After that, a store may forget an idle
// key completely. Count TTLs by a monotonic clock and fences by the time of day. A store that
// forgets its claims in a restart (it does not declare Detached, or has no disk) has only the clock
// to keep its fences growing.
//
// # The queue
//
// If [Features].Queue is declared, the entries on a key form a queue in order of arrival. No claim
// overtakes another. A claim is refused, even if there is capacity for it, while a live entry is
// before the owner's entry, or, if the owner has no entry, while there is any entry at all. A claim
// that is already held is not in the queue.
//
// The store wakes the watcher of the head, and no other, if it has the verb [Watch], whenever the
// head might be granted: after a release, a lowered weight, a withdrawn entry, or a grant that
// leaves capacity. A claim that becomes a record wakes all waiters, since all may read it. The end
// of a TTL need not wake a waiter: the head got the time of its next attempt in [Result].Retry.
//
// A store may grant the head its claim at the moment of a release, before the head attempts again.
// The TTL of such a claim is the time that was left of the queue entry, and no more. The head's
// next Acquire gives the claim a full TTL, as for every claim that is held.
//
// # Several stores
//
// Many stores may work on one backend: each process, and each lock server, has its own. Different
// owners may always use different stores. If [Features].AnyServer is declared, one owner may use
// several stores too, even at the same time: a client may repeat a call at another lock server when
// the first does not answer. Its claim, once granted through one store, never ends because of an
// undo that another store makes late.
//
// A store that never undoes a grant by itself, such as a store on one database, may declare it. A
// store must not declare it if its claims end with a connection, or if it releases a claim that it
// could not complete: parts on a minority of nodes, or a grant that too few replicas have. Such a
// release may arrive after the owner was granted the claim through another store. Then an owner
// uses one store for all its calls.
//
// # Wrapping a store
//
// A store that changes some calls of another embeds a [Forward] and overrides those methods. It
// keeps the optional verbs of the other, and only those.
//
// # What a store must not do
//
//   - Wait, retry, or renew by itself.
//   - Make up owners, or show an owner to others: a [Claim] carries the [Tag] of its owner.
//   - Compare its clock with a client's clock.
//   - Fold, trim or interpret keys. Two keys are the same if their bytes are the same, and every
//     byte string is a key.
//   - Leave anything behind for good on an idle key. It is enough to clean up during later calls,
//     on any key. The suite gives a store two seconds and 64 pairs of Acquire and Release
//     on another key to remove the remains of ten keys.
//
// # Closing a store
//
// The code that opened a store closes it. Close is not part of the contract, and the library never
// calls it.
package driver
