// Package faults breaks real servers, the ways to them and the processes that use them, by a plan that a seed decides,
// and has judged what came of it. Only tests import it.
//
//	sys := faults.Find("redis")
//	env := sys.Start(t, o)          // servers, a way with a proxy for each process
//	run := env.Run(t, o)            // processes play, and everything is broken in turn
//	_, _, errs := run.Heals()       // and other judges of one matter
//	v, err := run.Judge(min, errs...)
//
// # One place for a store
//
// A [System] is all that is particular to a store: how its servers start, the URL by which its clients connect, which
// faults apply to it, and what is not promised under which of them. A new store is a new row of [Systems], and nothing
// else here changes: neither the workloads nor the judges know a store.
//
// # Faults
//
// Processes are paused and killed as package torture does it. The rest is here: servers that are stopped, killed,
// emptied, replaced by their replica, out of memory or of disk, and ways that swallow, delay, hold back and cut, by a
// proxy, or by the kernel where the tests may make a network.
//
// # Verdicts
//
// A key that was in use when a fault came under which less is promised is judged by what is promised then, and by nothing
// else. All other keys are judged by everything. A run that tested too little fails. One that fails, for whatever reason, leaves its history, the
// notes of its processes and a picture.
package faults
