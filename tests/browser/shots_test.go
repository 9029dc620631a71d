package browser

import (
	"bytes"
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// TestShots writes pictures for people, of the demonstration: all pages in both themes and on a
// narrow screen.
func TestShots(t *testing.T) {
	if *shots == "" {
		t.Skip("pictures are written with -shots only")
	}
	url := os.Getenv("DISTLOCK_SHOTS_URL")
	if url == "" {
		url = serve(t, "--demo")
		time.Sleep(time.Minute)
	}
	b := open(t, url)
	pages := []struct{ name, path string }{
		{"overview", "/"}, {"locks", "/locks"}, {"lock", "/locks/lock/deploy/production"}, {"semaphore", "/locks/sem/reporting-database"},
		{"late", "/locks/lock/schema-migration"}, {"graph", "/graph"}, {"audit", "/audit"}, {"free", "/locks/lock/nobody"}, {"search", "/locks?q=zzz"},
	}
	for _, p := range pages {
		if only := os.Getenv("DISTLOCK_SHOTS_PAGES"); only != "" && !slices.Contains(strings.Fields(only), p.name) {
			continue
		}
		for _, theme := range []string{"light", "dark"} {
			for _, width := range []int64{1200, 390} {
				b.theme(theme, width)
				b.do(chromedp.Navigate(b.url+p.path), chromedp.Sleep(2500*time.Millisecond))
				file := filepath.Join(*shots, fmt.Sprintf("%s-%s-%d.png", p.name, theme, width))
				if err := os.WriteFile(file, small(t, get(b, chromedp.FullScreenshot(100))), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestShots_forms writes pictures of the form of Break, and of the log-in.
func TestShots_forms(t *testing.T) {
	if *shots == "" {
		t.Skip("pictures are written with -shots only")
	}
	file := t.TempDir() + "/tokens.toml"
	tokenOf(t, file, "ann", "*=observe")
	url := memory(t)
	claim(t, connect(t, url), "deploy", "ci-1")
	for name, b := range map[string]*tab{"break": open(t, url), "login": open(t, serve(t, "--demo", "--store", "memory:", "--tokens", file))} {
		for theme, width := range map[string]int64{"light": 1200, "dark": 390} {
			b.theme(theme, width)
			b.show("/locks/lock/deploy")
			if name == "break" {
				b.do(chromedp.Click(chromedp.CSS("summary")))
			}
			if err := os.WriteFile(filepath.Join(*shots, name+"-"+theme+".png"), small(t, get(b, chromedp.FullScreenshot(100))), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// small returns a picture with its 256 most frequent colours: a fifth of the size.
func small(t *testing.T, file []byte) []byte {
	t.Helper()
	from, err := png.Decode(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	counts := map[color.RGBA]int{}
	bounds := from.Bounds()
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(from.At(x, y)).(color.RGBA) }
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			counts[at(x, y)]++
		}
	}
	var colours []color.RGBA
	for c := range counts {
		colours = append(colours, c)
	}
	weight := func(c color.RGBA) int { // a few red pixels say more than a shade of grey
		if max(c.R, c.G, c.B)-min(c.R, c.G, c.B) > 60 {
			return 20 * counts[c]
		}
		return counts[c]
	}
	slices.SortFunc(colours, func(a, b color.RGBA) int { return cmp.Compare(weight(b), weight(a)) })
	var palette color.Palette
	for _, c := range colours[:min(len(colours), 256)] {
		palette = append(palette, c)
	}
	to, nearest := image.NewPaletted(bounds, palette), map[color.RGBA]uint8{}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			c := at(x, y)
			i, ok := nearest[c]
			if !ok {
				i = uint8(palette.Index(c))
				nearest[c] = i
			}
			to.SetColorIndex(x, y, i)
		}
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, to); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
