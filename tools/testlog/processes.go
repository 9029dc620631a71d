package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// pause is the time between two looks at the list of processes: most processes of tests live
// longer, and a look takes a few milliseconds.
const pause = 200 * time.Millisecond

// watch checks the command lines of all processes until stop is called. stop returns the programs
// whose command line had the secret. Without /proc, watch finds nothing.
func watch(secret string) (stop func() []string) {
	if secret == "" {
		return func() []string { return nil }
	}
	end, found := make(chan struct{}), make(chan []string)
	go func() {
		var all []string
		known := map[string]int{}
		for ended := false; !ended; {
			select {
			case <-end:
				ended = true
			case <-time.After(pause):
			}
			all = append(all, showing(secret, known)...)
		}
		found <- all
	}()
	return func() []string {
		close(end)
		return <-found
	}
}

// looks is how often the command line of a process is read: a child has that of its parent until it
// executes its own program.
const looks = 3

// showing returns the programs that show the secret now. It skips processes that it has read often
// enough, by the count in known.
func showing(secret string, known map[string]int) (programs []string) {
	names, _ := filepath.Glob("/proc/[0-9]*")
	for _, name := range names {
		if known[name]++; known[name] > looks {
			continue
		}
		line, err := os.ReadFile(name + "/cmdline")
		if err == nil && bytes.Contains(line, []byte(secret)) {
			program, _, _ := bytes.Cut(line, []byte{0})
			programs = append(programs, strings.ReplaceAll(filepath.Base(string(program)), secret, "(HERE)"))
		}
	}
	// The id of a process that has ended may be used for another.
	maps.DeleteFunc(known, func(name string, _ int) bool { return !slices.Contains(names, name) })
	return programs
}

// listed returns an error if the list of processes showed the secret.
func listed(programs []string) error {
	if len(programs) == 0 {
		return nil
	}
	slices.Sort(programs)
	return fmt.Errorf("the list of processes showed the password of the tests: %s", strings.Join(slices.Compact(programs), " "))
}
