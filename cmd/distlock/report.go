package main

import (
	"encoding/json"
	"os"
	"time"

	"github.com/distlock/distlock"
)

// A report is the JSON object that --report writes about a run. Times are in seconds.
type report struct {
	Name   string  `json:"name"`
	Waited float64 `json:"waited"`
	Held   float64 `json:"held"`
	Fence  uint64  `json:"fence"`
	Lost   bool    `json:"lost"`
	Exit   int     `json:"exit"`
}

func (r *report) begin(name string, waited time.Duration, lease *distlock.Lease) {
	r.Name, r.Waited = name, waited.Seconds()
	if lease != nil {
		r.Fence = lease.Fence()
	}
}

// write writes the report to a file, unless the name of the file is empty.
func (r *report) write(file string) error {
	if file == "" {
		return nil
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o666) //nolint:gosec // it contains no secret, and the umask applies
}
