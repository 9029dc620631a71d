// Package pgadvisory is a store on the advisory locks of PostgreSQL, which need no table.
//
// A claim is a lock that one of the store's own connections holds. It ends with Release, with its TTL, and with the connection,
// whichever is first: a process that is killed frees everything at once. Whoever takes the lock with the documented number
// by other means, in psql or another language, excludes and is excluded: see [Key].
//
// # Time
//
// While the process runs, it ends its claims itself. If it is stopped, or cut off from the server, the server ends the
// connection once it has been idle for longer than the TTL of what it holds (idle_session_timeout, PostgreSQL 14). A server whose
// clock is set forward may end it early. A renewal is a statement on that connection. That it was answered proves that the lock is
// held: only its own connection can give an advisory lock back.
//
// # Connections
//
// The store opens its own, and never uses a pool of the caller's: a lock belongs to a connection. Many claims stand on one, but no two
// owners of a key: the server would grant the second what the first holds. Only where there are more readers of one key than
// connections do some of them share one, which the server counts. If a statement of one of them fails, so that nobody knows the count, the others keep
// what they hold, and what may be left is freed after the last of them. A store has at most Options.Conns connections that take locks, and
// Options.Waits on which the server keeps a waiter in its own line: a free lock is granted there without being asked for
// again. A connection that holds nothing ends when it has been idle for as long as the last TTL.
//
// # Fences
//
// A fence is the next number of a sequence, times 128, taken in the statement that takes the lock. The sequence is the one thing that has to be created: see
// [Options.Schema].
//
// # What is not guaranteed
//
// When a connection breaks, or the server restarts or fails over, the locks are free at once, long before their TTL. The holder is told as soon as its side of
// the connection ends; a rival may be granted before that. If something on the way, such as a load balancer, ended it towards the server alone, that
// is when a renewal fails, or when trust ends. Check fences. A failover to a standby that is behind may give a fence
// again. Advisory locks know no permissions: every role that may connect to the database can take any of them. Among roles that do not trust each
// other use a lease table. A pooler that gives a connection to another client after each transaction is refused: there two clients
// would hold one lock.
package pgadvisory
