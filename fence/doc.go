// Package fence has guards for the resources that a lock protects: a guard refuses a change that
// comes too late. It compares fencing tokens, called fences here. Guards are for exclusive locks;
// they refuse a shared or counted lease.
//
// A holder can be paused at any moment, for longer than its lock lasts, and continue as if nothing
// had happened. No lock can prevent that. But every exclusive lease has a fence, a number that is
// greater than the fences of all earlier leases of that name. If the resource remembers the highest
// fence that it has seen and refuses lower ones, the late change does no harm.
//
// The rule is the same everywhere. A fence that is equal to the highest or above it is accepted and
// becomes the highest, so a holder may write as often as it likes. A lower fence is refused with
// [ErrStale], and nothing is changed. Fences are compared as integers. Do not mix fences of
// different locks: one lock, and always the same, guards a resource. The lock and the election of
// one name are different locks: see [NameOf].
//
// # Which guard
//
//   - [Row], if the changed rows have, or can have, a column for the fence. It costs nothing: one
//     statement checks and changes.
//   - [Table], for all other changes in a transaction of a SQL database: it has one row for each
//     lock.
//   - Packages pgxfence and redisfence: the same for pgx, and for keys in Redis.
//   - [Middleware], for services that are called by HTTP. The caller's lease travels in the header
//     Distlock-Fence.
//   - [Once], to do something only once and keep its result, in one transaction.
//   - [Update], without a lock: it changes a value that has a version, and starts again if another
//     process was faster.
//
// # What is not guaranteed
//
// A guard knows only the fences that it has seen. It accepts a late change that arrives before the
// first change of the next holder: as if the first holder had still been in time. To make sure that
// no earlier holder writes after it has read, the next holder writes first, and reads then.
//
// A proof is neither secret nor signed. A caller of a guard can lie to it, and lock others out with
// a fence that is too high. Guards stop late holders, not malicious ones.
package fence
