// Package chaos is a driver.Store that misbehaves: on command, or by a plan drawn from a
// seed.
//
// Each Store is one client's link to a store that others reach by links of their own, so
// one client can be cut off while the others go on:
//
//	client a -> chaos.Store a --+
//	                            +--> the store
//	client b -> chaos.Store b --+
//
// It breaks links, not stores: whatever arrives is served truly. What a caller is told is
// always one of the four answers of package driver. A lost request and a lost reply are
// both unknown, and only the second one had an effect.
//
// A request whose caller has given up arrives all the same, later: a network does not take
// back what was sent. So does the second copy of a repeated one.
//
// It uses no clock but package time's and leaves no goroutine behind after Close, so it
// works in a testing/synctest bubble. A Store must be made, used and closed in one bubble.
package chaos
