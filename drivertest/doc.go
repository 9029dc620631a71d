// Package drivertest is the contract of package driver as a table of laws. A store that
// passes carries every kind of lock.
//
// Whoever writes a store runs it from one test:
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
// Run asks for one law after the other, each on a store of its own. A law that is broken quotes
// its sentence, the line that found it, what was got and what was wanted. Compare makes random
// calls on the store and on store/mem, and wants the same answers. [Faults] breaks the connection
// to the store's server while calls are under way, and compares what they report with what they
// did. [Bench] measures how the calls of a store grow with what it keeps.
//
// What a store does not declare in its Features is never asked of it, and neither are
// the verbs that it lacks: such a law is skipped and says what it needs. What a store
// declares is tested.
//
// # Time
//
// A store that reads no clock but time.Now and no socket sets Env.Virtual. Its laws run
// in testing/synctest bubbles, take no time, and are exact. A real server is tested in
// real time, where all waits are multiples of Env.TTL. There a claim that ends late
// is forgiven for a while, one that ends early never is.
//
// No law is asked twice. Every call is timed, and an answer is held against a store only if it is
// wrong whenever in that time the store served the call. A law that relies on a claim which may have
// ended before the answer came ends without a verdict: it is skipped and says so. If that happens
// often, a longer Env.TTL helps.
//
// # What is not tested
//
// Failover, jumps of a clock, durability: these need the store's own tests, which know how to
// break its server. A mistake that shows itself only in a moment between two statements is found
// by chance: run the suite often.
package drivertest
