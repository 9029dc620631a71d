// Package fence has guards for what a lock protects: they refuse a change that comes too late. They are for exclusive
// locks; a shared or counted lease is refused.
//
// A holder can be paused at any moment, for longer than its lock lasts, and go on as if nothing had happened. No lock can prevent
// that. But every exclusive lease has a fence, a number that is greater than those of all leases of that name before. If
// what is changed remembers the highest fence that it has seen and refuses lower ones, the late change does no harm.
//
// The rule is the same everywhere: a fence that is equal to the highest or above it is accepted and becomes the highest, so a holder may
// write as often as it likes; one below it is refused with ErrStale, and nothing is changed. Fences are compared as
// integers. Fences of different locks must not be mixed: what is guarded is guarded by one lock, always.
//
// # Which guard
//
//   - Row, if the rows that are changed have, or can have, a column for the fence. It costs nothing: one statement checks and changes.
//   - Table, for everything else that is changed in a transaction of a SQL database: it has one row for each lock.
//   - Packages pgxfence and redisfence: the same for pgx, and for keys in Redis.
//   - Middleware, for services that are called by HTTP. The caller's lease travels in the header Distlock-Fence.
//   - Once, if something is to be done only once and its result kept, in the transaction that does it.
//   - Update, if there is no lock: it changes what has a version, and begins anew if another was faster.
//
// # What is not guaranteed
//
// A guard knows only the fences that it has seen. A late change that arrives before any by the next holder is accepted: it is as if
// the first holder had still been in time. Whoever needs the next holder to be the last one to have written lets it write
// first, before it reads.
//
// A proof is no secret and not signed. Whoever may call a guard can lie to it, and lock others out with
// a fence that is too high. Guards stop those who are late, not those who mean harm.
package fence
