// Package pgadvisory is a store on the advisory locks of PostgreSQL, which need no table.
//
// A claim is a lock that one of the store's own connections holds. It ends with [Store.Release],
// with its TTL or with the connection, whichever is first. A killed process frees all its locks at
// once. Clients that acquire the lock with the documented number by other means, in psql or another
// language, exclude the store and are excluded by it: see [Key].
//
// # Time
//
// A running process ends its claims itself. If the process is stopped or cut off from the server,
// the server ends the connection after it has been idle for longer than the TTL of its claims
// (idle_session_timeout, PostgreSQL 14). A server whose clock is set forward may end it early. A
// renewal is a statement on that connection. Its answer proves that the lock is held: only the
// connection itself can release an advisory lock.
//
// # Connections
//
// A lock belongs to a connection, so the store opens its own connections and never uses a pool of
// the caller. One connection holds many claims, but never two owners of a key: the server would
// grant the second owner the lock of the first. Only if a key has more readers than there are
// connections, some of them share one, and the server counts their locks. If a statement of one of
// them fails and the count is unknown, the others keep their locks, and the uncertain lock is freed
// after the last of them.
//
// A store has at most [Options.Conns] connections that acquire locks, and [Options.Waits]
// connections on which a waiter stands in the server's own queue: there the server grants a free
// lock without another attempt. A connection without claims ends when it has been idle for as long
// as its last TTL.
//
// # Fences
//
// A fence, or fencing token, is the next number of a sequence, times 128. The statement that
// acquires the lock also reads the fence. The sequence is the only object to create: see
// [Options.Schema].
//
// # What is not guaranteed
//
// When a connection breaks, or the server restarts or fails over, the locks are free at once, long
// before their TTL. The holder is notified as soon as its side of the connection ends, and a rival
// may be granted before that. If a device between the two, such as a load balancer, ended only the
// side of the server, the holder notices when a renewal fails or its trust ends. Check fences.
//
// A failover to a standby that is behind may repeat a fence. Advisory locks have no permissions:
// every role that may connect to the database can acquire any of them. Use a lease table among
// roles that do not trust each other. The store refuses a pooler that gives a connection to another
// client after each transaction: behind it two clients would hold one lock.
package pgadvisory
