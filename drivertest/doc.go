// Package drivertest tests a store against the contract of package driver, as a table of rules. A
// store that passes supports every kind of lock.
//
// The author of a store runs it from one test:
//
//	func TestStore(t *testing.T) {
//		env := drivertest.Env{
//			Open: func(t testing.TB) driver.Store {
//				s, err := mystore.New(freshNamespace(t))
//				if err != nil {
//					t.Fatal(err)
//				}
//				t.Cleanup(func() { s.Close() })
//				return s
//			},
//		}
//		drivertest.Run(t, env)
//		drivertest.Compare(t, env)
//	}
//
// [Run] checks one rule after the other, each on a store of its own. A broken rule reports its
// sentence, the line of the check, the value that it got and the value that it wants. [Compare]
// makes random calls on the store and on store/mem, and fails if the answers differ. [Faults]
// breaks the connection to the store's server during calls, and compares the reported outcome of
// each call with its effect. [Bench] measures how the cost of a call grows with the number of
// claims.
//
// A rule that needs a feature that the store does not declare, or a verb that it lacks, is skipped
// and reports what it needs. Every declared feature is tested.
//
// # Time
//
// A store that reads no clock except [time.Now] and uses no socket sets [Env].Virtual. Its rules
// run in testing/synctest bubbles, take no time, and are exact. A real server is tested in real
// time, where all waits are multiples of [Env].TTL. There a claim may end a little late, but never
// early.
//
// A rule that failed is not checked again. Every call is timed, and an answer fails a rule only if
// it is wrong for every moment of the call at which the store may have served it. If a rule relies
// on a claim that may have ended before the answer arrived, the rule has no verdict and is checked
// again. After five checks without a verdict it is skipped, and reports the reason. If that happens
// often, set a longer [Env].TTL.
//
// # What is not tested
//
// Failover, clock jumps and durability need the store's own tests, which know how to break its
// server. A race between two statements of a store is found only by chance: run the suite often.
package drivertest
