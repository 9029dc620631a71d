// Package chaos provides a [driver.Store] that produces faults: on command, or by a plan drawn from
// a seed.
//
// Each [Store] is one client's link to a store. Other clients reach the store by their own links,
// so one client can be cut off while the others continue:
//
//	client a -> chaos.Store a --+
//	                            +--> the store
//	client b -> chaos.Store b --+
//
// The package breaks links, not stores: the store answers every request that arrives correctly. A
// caller always gets one of the four answers of package driver. The outcome of a lost request and
// of a lost reply is unknown, and only the lost reply had an effect.
//
// A request whose caller has given up still arrives later, because a network does not take back
// data that was sent. The second copy of a repeated request arrives later too.
//
// The package uses only the clock of package time and leaves no goroutine behind after Close, so it
// works in a testing/synctest bubble. A Store must be created, used and closed in one bubble.
package chaos
