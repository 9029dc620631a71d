package dashboard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

//go:embed static/*.css static/*.js static/*.svg static/vendor/*.js static/vendor/*.css
var static embed.FS

// An asset is a file of the pages.
type asset struct {
	plain, zipped []byte
	kind          string // the content type
	version       string // part of its address, so that browsers keep it
}

// kinds are content types. Those of package mime depend on the host.
var kinds = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}

// assets are the files of the pages, by name.
type assets struct{ files map[string]asset }

// newAssets compresses the embedded files.
func newAssets() *assets {
	a := &assets{files: map[string]asset{}}
	err := fs.WalkDir(static, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := static.ReadFile(name)
		if err != nil {
			return err
		}
		a.add(strings.TrimPrefix(name, "static/"), text)
		return nil
	})
	if err != nil {
		panic(err) // the files are part of the program
	}
	// htmx starts in a timer after its script. In one file, its extension and the script of the
	// pages are there by then, however slow the network is.
	var live [][]byte
	for _, name := range []string{"vendor/htmx.min.js", "vendor/hx-sse.min.js", "app.js"} {
		live = append(live, a.files[name].plain)
	}
	a.add("live.js", bytes.Join(live, []byte("\n;\n")))
	return a
}

// add compresses a file.
func (a *assets) add(name string, text []byte) {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is valid
	_, _ = z.Write(text)
	_ = z.Close()
	sum := sha256.Sum256(text)
	a.files[name] = asset{plain: text, zipped: b.Bytes(), kind: kinds[path.Ext(name)], version: hex.EncodeToString(sum[:6])}
}

// url returns the address of a file from the root of the dashboard.
func (a *assets) url(name string) string { return "static/" + name + "?v=" + a.files[name].version }

// serve answers the request of a file.
func (a *assets) serve(w http.ResponseWriter, r *http.Request, name string) {
	f, ok := a.files[name]
	if !ok || r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("ETag", `"`+f.version+`"`)
	h.Set("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "no-cache")
	if r.URL.Query().Get("v") == f.version {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if r.Header.Get("If-None-Match") == `"`+f.version+`"` {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := f.plain
	if acceptsGzip(r) {
		body = f.zipped
		h.Set("Content-Encoding", "gzip")
	}
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}
