package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/anishathalye/porcupine"
)

// A Search bounds the model and says where to write the results.
type Search struct {
	Timeout time.Duration // for all keys together; 0: 10 s. A search that does not end in time is a failure
	Dir     string        // the folder for a failing history and its pictures; empty: none are written
	Name    string        // the beginning of the file names: the seed
}

// Verify checks a history against the rules and the model. It returns the verdict, and a [*Failure]
// if there is a violation. Call it outside of a synctest bubble, in which the timeout would never
// fire.
func Verify(h *History, rules Rules, s Search) (*Verdict, error) {
	v := Check(h, rules)
	f := &Failure{Verdict: v}
	if v.Count[Record] == 0 {
		s.search(h, rules, f)
	}
	if len(v.Violations) == 0 {
		return v, nil
	}
	if s.Dir != "" {
		if err := s.write(h, f); err != nil {
			return v, errors.Join(f, err)
		}
	}
	return v, f
}

// search runs the model on each key.
func (s Search) search(h *History, rules Rules, f *Failure) {
	x, err := newIndex(h, Rules{Early: rules.Early}, &Verdict{})
	if err != nil {
		return // Check has reported the error
	}
	timeout := s.Timeout
	if timeout == 0 {
		timeout = 10 * time.Second
	}
	deadline := time.Now().Add(timeout)
	model := lockModel()
	for _, k := range x.keys {
		left := max(time.Until(deadline), time.Nanosecond) // 0 would mean no limit
		res, info := porcupine.CheckOperationsVerbose(model, x.operations(k), left)
		if res == porcupine.Ok {
			continue
		}
		what := "no order of the answers is that of a lock"
		if res == porcupine.Unknown {
			what = "the search for an order did not end in time, which proves nothing"
		}
		f.add(Model, k.key, nil, "%s", what)
		if s.Dir == "" || f.Count[Model] > shown {
			continue
		}
		path := filepath.Join(s.Dir, PictureName(s.Name, k.key))
		if err := WriteFile(path, func(w io.Writer) error { return visualize(w, s.Name+" "+k.key, model, info) }); err != nil {
			f.add(Record, k.key, nil, "no picture: %v", err)
			continue
		}
		f.Files = append(f.Files, path)
	}
}

// write writes the history as lines of JSON.
func (s Search) write(h *History, f *Failure) error {
	path := filepath.Join(s.Dir, s.Name+".jsonl")
	if err := WriteFile(path, h.WriteJSON); err != nil {
		return err
	}
	f.Files = append(f.Files, path)
	return nil
}

// WriteFile creates a file with the output of write.
func WriteFile(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

// WriteJSON writes one operation per line. The last line is the end of the history.
func (h *History) WriteJSON(w io.Writer) error {
	b := bufio.NewWriter(w)
	e := json.NewEncoder(b)
	for i := range h.Ops {
		if err := e.Encode(&h.Ops[i]); err != nil {
			return err
		}
	}
	if err := e.Encode(end{h.End}); err != nil {
		return err
	}
	return b.Flush()
}

// ReadJSON reads the output of [History.WriteJSON].
func ReadJSON(r io.Reader) (*History, error) {
	h := &History{}
	for d := json.NewDecoder(r); ; {
		var line struct {
			Op
			end
		}
		err := d.Decode(&line)
		switch {
		case err == io.EOF:
			return h, nil
		case err != nil:
			return nil, err
		case line.Kind == 0:
			h.End = line.end.End
		default:
			h.Ops = append(h.Ops, line.Op)
		}
	}
}

type end struct {
	End time.Duration `json:"end"`
}
