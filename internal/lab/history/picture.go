package history

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// drawn is the largest number of operations in a picture: a browser is slow with more.
const drawn = 3000

// A Mark is a note of a client about a key at a time, in addition to its operations.
type Mark struct {
	Client, Key, What string
	At                time.Duration
}

// Picture writes the events of a key as an HTML page: a row for each client, and one for the faults
// of all clients. It searches for no order, so it works for any history.
func (h *History) Picture(w io.Writer, title, key string, marks []Mark) error {
	var all []porcupine.Annotation
	add := func(client, text, details, color string, from, to time.Duration) {
		if len(all) < drawn {
			all = append(all, porcupine.Annotation{
				Tag: client, Description: text, Details: details, BackgroundColor: color, Start: int64(from), End: int64(to),
			})
		}
	}
	for i := range h.Ops {
		op := &h.Ops[i]
		to := op.Return.At
		if op.Return == (Stamp{}) {
			to = h.End
		}
		switch {
		case op.Kind == Fault && op.Client == "":
			add("all clients", op.What, op.String(), "#e99", op.Call.At, to)
		case op.Kind == Fault:
			add(op.Client, op.What, op.String(), "#e99", op.Call.At, to)
		case op.Key == key:
			add(op.Client, fmt.Sprint(op.Kind, " ", op.Outcome), op.String(), "", op.Call.At, to)
		}
	}
	for _, m := range marks {
		if m.Key == key {
			add(m.Client, m.What, fmt.Sprint(m.At, " ", m.What), "#cdf", m.At, m.At)
		}
	}
	if len(all) == drawn {
		title += fmt.Sprintf(" (the first %d operations)", drawn)
	}
	var info porcupine.LinearizationInfo
	info.AddAnnotations(all)
	return visualize(w, title, lockModel(), info)
}

// visualize writes the page of the model's library with the given title.
func visualize(w io.Writer, title string, model porcupine.Model, info porcupine.LinearizationInfo) error {
	var page bytes.Buffer
	if err := porcupine.Visualize(model, info, &page); err != nil {
		return err
	}
	_, err := io.WriteString(w, strings.Replace(page.String(), "<title>Porcupine</title>", "<title>"+html.EscapeString(title)+"</title>", 1))
	return err
}

// PictureName returns the file name for the picture of a key. Characters of the key that are
// unusual in file names become underscores.
func PictureName(run, key string) string {
	const most = 60 // characters of a key
	plain := strings.Map(func(r rune) rune {
		if r < 128 && (r == '.' || r == '-' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z') {
			return r
		}
		return '_'
	}, key)
	return fmt.Sprintf("%s-key-%s.html", run, plain[:min(len(plain), most)])
}
