package faults

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/distlock/distlock/internal/lab/history"
)

// run returns the beginning of the file names of a run.
func (r *Run) run() string { return fmt.Sprintf("%s-seed-%d", r.Name, r.Seed) }

// keep writes the whole history, the notes of the processes, and pictures of the keys that an error
// names, or of the busiest key. The search of the model has already drawn some of them.
func (r *Run) keep(dir string, h *history.History, why string) error {
	const most = 5 // pictures
	busy := keys(h)
	marks := make([]history.Mark, len(r.Notes))
	for i, n := range r.Notes {
		marks[i] = history.Mark{Client: n.Who, Key: n.Key, What: n.What + " " + n.Value, At: n.At}
		busy[n.Key]++
	}
	// Longer keys come first: a key may be the beginning of another.
	names := slices.SortedFunc(maps.Keys(busy), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(busy[b], busy[a]), cmp.Compare(a, b))
	})
	var chosen []string
	for _, key := range names {
		if key != "" && strings.Contains(why, key) && len(chosen) < most {
			chosen, why = append(chosen, key), strings.ReplaceAll(why, key, "")
		}
	}
	if len(chosen) == 0 && len(names) > 0 {
		chosen = []string{slices.MaxFunc(names, func(a, b string) int { return cmp.Compare(busy[a], busy[b]) })}
	}
	errs := []error{
		history.WriteFile(filepath.Join(dir, "whole.jsonl"), h.WriteJSON),
		history.WriteFile(filepath.Join(dir, "notes.jsonl"), func(w io.Writer) error {
			e := json.NewEncoder(w)
			for i := range r.Notes {
				if err := e.Encode(&r.Notes[i]); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	for _, key := range chosen {
		path := filepath.Join(dir, history.PictureName(r.run(), key))
		if _, err := os.Stat(path); err == nil {
			continue
		}
		errs = append(errs, history.WriteFile(path, func(w io.Writer) error { return h.Picture(w, r.run()+" "+key, key, marks) }))
	}
	return errors.Join(errs...)
}
