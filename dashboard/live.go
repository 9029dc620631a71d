package dashboard

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/distlock/distlock/server/access"
)

const (
	maxStreams = 1000             // open pages of one server
	beat       = 15 * time.Second // the longest silence of a stream: it shows that a page is gone
	sendLimit  = 10 * time.Second // a page that does not read for this time is cut off
)

// A part is the live part of a page, which all open pages of one identity and address share.
type part struct {
	mu   sync.Mutex // held while it is rendered: others wait for the result
	seq  int
	body []byte
}

// stream sends the live part of a page whenever it has changed.
func (d *Dashboard) stream(w http.ResponseWriter, r *http.Request, name string, body func(*page) any) {
	if d.closed.Err() != nil {
		http.Error(w, "the server is about to end", http.StatusServiceUnavailable)
		return
	}
	select {
	case d.streams <- struct{}{}:
		defer func() { <-d.streams }()
	default:
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // not every connection has deadlines
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // for proxies that buffer
	w.WriteHeader(http.StatusOK)
	if control.Flush() != nil {
		return
	}
	var last []byte
	var sent time.Time
	tick := time.NewTicker(scanEvery + 50*time.Millisecond) // a little later than the snapshot is old
	defer tick.Stop()
	for {
		// The permissions may have changed, or the session has ended.
		id, err := d.identify(r)
		if err != nil {
			return
		}
		now, err := d.part(r, id, name, body)
		if err != nil {
			return
		}
		message := []byte(":\n\n")
		if !bytes.Equal(now, last) {
			message = event(now)
		}
		if len(message) > 3 || time.Since(sent) > beat {
			_ = control.SetWriteDeadline(time.Now().Add(sendLimit))
			if _, err := w.Write(message); err != nil || control.Flush() != nil {
				return
			}
			_ = control.SetWriteDeadline(time.Time{})
			last, sent = now, time.Now()
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		case <-d.closed.Done():
			return
		}
	}
}

// part returns the live part of a page. Pages of one identity and address get the same bytes.
func (d *Dashboard) part(r *http.Request, id *access.Identity, name string, body func(*page) any) ([]byte, error) {
	p := d.newPage(r, id, name)
	p.Fragment = true
	p.query.Del("live")
	all := d.scanner.snapshot(r.Context(), scope{})
	key := fmt.Sprintf("%v\n%s\n%s\n%s?%s", *id, p.Root, p.Address, r.URL.Path, p.query.Encode())
	d.mu.Lock()
	at := d.parts[key]
	if at == nil {
		if len(d.parts) >= maxStreams {
			clear(d.parts)
		}
		at = &part{}
		d.parts[key] = at
	}
	d.mu.Unlock()
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.body != nil && at.seq == all.Seq {
		return at.body, nil
	}
	p.Body = body(p)
	b, err := d.render(p, "live")
	if err == nil {
		at.seq, at.body = all.Seq, b
	}
	return b, err
}

// event returns a message of server-sent events.
func event(data []byte) []byte {
	var b bytes.Buffer
	data = bytes.ReplaceAll(data, []byte("\r"), []byte("\n")) // it would end a line of the message
	for line := range bytes.SplitSeq(bytes.TrimSpace(data), []byte("\n")) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			fmt.Fprintf(&b, "data: %s\n", line)
		}
	}
	b.WriteByte('\n')
	return b.Bytes()
}
