// Package locktest tests code that uses distlock: a store in memory that a test cuts off, delays,
// takes down and lets others steal from, on command.
//
// A test gives it to the code under test in the place of the real one:
//
//	store := locktest.New(t)
//	locker, err := distlock.New(store)
//
// The store itself is always right, as every store is that follows package driver. What is broken is the
// link to it. So a test sees what a bad day would bring, told in the same words: ErrHeld, ErrLost,
// ErrUnavailable, ErrUnknown.
//
// # My job stops when it loses its lock
//
//	func TestJob_stopsWhenItLosesItsLock(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			store := locktest.New(t)
//			job := start(t, store)
//			synctest.Wait() // it holds its lock and works
//
//			store.Steal("nightly")
//			if err := job.wait(); !errors.Is(err, distlock.ErrLost) {
//				t.Errorf("the job ended with %v, want ErrLost", err)
//			}
//		})
//	}
//
// Steal is how another takes the lock; Expire leaves it free; Cut and Freeze have the job lose its lock because
// it cannot renew, which takes as long as its TTL. In the bubble of testing/synctest that is no time.
//
// # My job is skipped when another runs
//
//	store.Hold("nightly", "the other machine")
//	ran := runNightly(ctx, locker) // calls locker.TryDo, or locker.TryLock
//	if ran {
//		t.Error("the job ran beside another")
//	}
//
// # My job survives a lost reply
//
//	store.LoseReplies(1, locktest.Acquire)
//	err := runNightly(ctx, locker)
//	if err != nil || store.Calls(locktest.Acquire) != 2 {
//		t.Error("the job did not ask again")
//	}
//
// # The fence of the late writer is refused
//
//	lease, err := locker.Lock(ctx, "nightly")
//	...
//	rival := store.Steal("nightly") // lease does not know it yet
//	if err := table.write(rival.Fence(), "new"); err != nil {
//		t.Error(err)
//	}
//	if err := table.write(lease.Fence(), "late"); err == nil {
//		t.Error("a late write was taken")
//	}
//
// # Several processes
//
// Link returns another link to the same store. A Locker on each stands for a process, and one can be cut off
// while the others go on:
//
//	a, err := distlock.New(store)
//	...
//	b, err := distlock.New(store.Link())
//	...
//	store.Cut() // a is cut off, b is not
//
// # Time
//
// The package uses no clock but that of package time and leaves no goroutine behind, so tests run in
// testing/synctest bubbles, where hours take no time and synctest.Wait returns when nothing is going on. A Store
// belongs to the bubble it is made in: give New the bubble's own t. Outside of a bubble it
// works too, in real time; there, take a short TTL (distlock.TTL), and Holders and Waiting tell how far the
// code under test has come.
//
// # Names
//
// Names are those that are given to the Locker. The commands about names are for locks and read/write
// locks; keys of other kinds they do not reach.
//
// # Mistakes
//
// A command that makes no sense, such as to steal a lock that nobody holds, fails the test with t.Fatalf and says what
// is held: it is a wrong name, or the code under test has not come that far. As with all of
// t.Fatalf, give those commands from the test's own goroutine.
package locktest
