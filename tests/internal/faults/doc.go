// Package faults breaks real servers, the routes to them and the processes that use them, by a plan
// that a seed decides, and checks the results. Only tests import it. Each grant has a fencing
// token, which the package calls a fence.
//
//	sys := faults.Find("redis")
//	env := sys.Start(t, o)          // servers, a route with a proxy for each process
//	run := env.Run(t, o)            // processes play, and one fault follows another
//	_, _, errs := run.Heals()       // and other checks of one property
//	v, err := run.Check(min, errs...)
//
// # One row per store
//
// A [System] contains everything that is particular to a store: how its servers start, the URL by
// which its clients connect, the faults that apply to it, and the promises that do not hold under
// each of them. A new store is a new row of [Systems], and nothing else here changes: neither the
// workloads nor the checks know a store.
//
// # Faults
//
// Package torture pauses and kills processes. This package produces all other faults: servers that
// are stopped, killed, emptied, replaced by their replica, out of memory or out of disk space, and
// routes that swallow, delay, hold back and cut data. A proxy breaks the routes, or the kernel
// where the tests may create a network.
//
// # Verdicts
//
// A key that was in use during a fault with fewer promises is checked only against the promises
// under that fault. All other keys are checked against everything. A run that tested too little
// fails. A run that fails, for whatever reason, leaves its history, the notes of its processes and
// a picture.
package faults
