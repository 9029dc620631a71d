package testenv

import (
	"os"
	"os/signal"
	"syscall"
)

// ignored are the signals that this process has ignored since its start: nohup ignores SIGHUP, and
// a shell script ignores SIGINT for a command that it starts with "&". The Go runtime handles every
// other signal that a program may inherit as ignored.
var ignored = func() (found []os.Signal) {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			found = append(found, s)
		}
	}
	return found
}()

// HandleIgnored keeps the children of this process from inheriting ignored signals. It handles
// these signals and discards them. A child starts with the default action for a handled signal, and
// this process still does not end by it. [Runner.Run] calls HandleIgnored. A test that calls
// [signal.Reset] must call it again.
func HandleIgnored() {
	if len(ignored) > 0 { // without a signal, Notify would relay all of them
		signal.Notify(make(chan os.Signal, 1), ignored...)
	}
}
