package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// A record has the results of one suite, and how they were measured.
type record struct {
	Date     string            `json:"date"`
	Machine  string            `json:"machine"`
	Load     string            `json:"load"` // of the machine before the run: mean of one minute
	Rounds   int               `json:"rounds"`
	Each     string            `json:"each"`
	Versions map[string]string `json:"versions"`
	Tables   []table           `json:"tables"`
}

// modules are the modules whose versions are on the page, by their names there.
var modules = map[string]string{
	"github.com/redis/rueidis": "rueidis and rueidislock", "github.com/redis/go-redis/v9": "go-redis",
	"github.com/bsm/redislock": "redislock", "github.com/go-redsync/redsync/v4": "redsync",
	"cirello.io/pglock": "pglock", "github.com/jackc/pgx/v5": "pgx", "modernc.org/sqlite": "modernc.org/sqlite",
}

// record returns the results of a suite.
func (b *bench) record(load string) record {
	versions := map[string]string{"Go": strings.TrimPrefix(runtime.Version(), "go")}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if name := modules[m.Path]; name != "" {
				versions[name] = strings.TrimPrefix(m.Version, "v")
			}
		}
	}
	for name, v := range b.versions {
		versions[name] = v
	}
	return record{
		time.Now().UTC().Format(time.DateOnly), machine(), load, b.rounds, b.each.String(), versions, b.tables,
	}
}

// machine describes this machine, as far as the system shows it.
func machine() string {
	cpu, _ := os.ReadFile("/proc/cpuinfo")
	_, model, _ := strings.Cut(string(cpu), "model name\t: ")
	model, _, _ = strings.Cut(model, "\n")
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	parts := []string{
		fmt.Sprintf("%d cores", runtime.NumCPU()), model, strings.TrimSpace(runtime.GOOS + " " + string(kernel)), runtime.GOARCH,
	}
	return strings.ReplaceAll(strings.Join(parts, ", "), ", , ", ", ")
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	load, _, _ := strings.Cut(string(text), " ")
	return load
}

// readResults reads the records of all suites. A file that does not exist has none.
func readResults(file string) (map[string]record, error) {
	all := map[string]record{}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return all, nil
}

// keep replaces the record of a suite in the file of results. A table is one line of the file.
func (c config) keep(name string, r record) error {
	all, err := readResults(c.results)
	if err != nil {
		return err
	}
	all[name] = r
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	text = bytes.ReplaceAll(text, []byte(`{"title":`), []byte("\n"+`{"title":`))
	return os.WriteFile(c.results, append(text, '\n'), 0o644)
}
