// Package locktest tests code that uses distlock. It is a store in memory whose link a test can
// cut, delay or take down, and from which a test can steal locks.
//
// A test passes it to the code under test instead of the real store:
//
//	store := locktest.New(t)
//	locker, err := distlock.New(store)
//
// The store itself always works as package driver requires. Only the link to it breaks. So a test
// sees the errors of a bad day: ErrHeld, ErrLost, ErrUnavailable, ErrUnknown.
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
// [Store.Steal] gives the lock to another holder. [Store.Expire] leaves it free. With [Store.Cut]
// and [Store.Freeze] the job loses its lock because it cannot renew, which takes as long as its
// TTL. In a bubble of testing/synctest that takes no real time.
//
// # My job is skipped when another runs
//
//	store.Hold("nightly", "the other machine")
//	ran := runNightly(ctx, locker) // calls locker.TryDo, or locker.TryLock
//	if ran {
//		t.Error("the job ran while another ran")
//	}
//
// # My job survives a lost reply
//
//	store.LoseReplies(1, locktest.Acquire)
//	err := runNightly(ctx, locker)
//	if err != nil || store.Calls(locktest.Acquire) != 2 {
//		t.Error("the job did not try again")
//	}
//
// # The fencing token of the late writer is refused
//
//	lease, err := locker.Lock(ctx, "nightly")
//	...
//	rival := store.Steal("nightly") // lease does not know it yet
//	if err := table.write(rival.Fence(), "new"); err != nil {
//		t.Error(err)
//	}
//	if err := table.write(lease.Fence(), "late"); err == nil {
//		t.Error("a late write was accepted")
//	}
//
// # Several processes
//
// [Store.Link] returns another link to the same store. A Locker on each link stands for a process.
// A test can cut one of them off while the others continue:
//
//	a, err := distlock.New(store)
//	...
//	b, err := distlock.New(store.Link())
//	...
//	store.Cut() // a is cut off, b is not
//
// # Time
//
// The package uses no clock but that of package time and leaves no goroutine behind. So tests run
// in testing/synctest bubbles, where hours take no real time, and where synctest.Wait returns when
// all goroutines wait. A [Store] belongs to the bubble in which it is made: pass the t of the
// bubble to [New]. The store also works outside of a bubble, in real time. Use a short TTL there
// (distlock.TTL), and [Store.Holders] and [Store.Waiting] to see the progress of the code under
// test.
//
// # Names
//
// Names are the names that the code passes to the Locker. The commands about names work for locks
// and read/write locks, and not for keys of other kinds.
//
// # Mistakes
//
// A command that makes no sense, such as to steal a lock that no one holds, fails the test with
// t.Fatalf and lists the held locks: the name is wrong, or the code under test has not acquired the
// lock yet. As always with t.Fatalf, call these commands from the goroutine of the test.
package locktest
