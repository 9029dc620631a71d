package dashboard

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/names"
	"github.com/distlock/distlock/server/access"
)

// maxReason is the longest reason of a Break, in bytes.
const maxReason = 500

// breakLimit bounds the call of the store.
const breakLimit = 5 * time.Second

// A breakForm is the form on the page of a lock.
type breakForm struct {
	Word   string // of the kind
	Noun   string // of the kind, for people
	Stored bool   // the claim is a stored result: nobody is at work
	Name   string
	Type   string // what the user types: the name, or "break" for a name that cannot be typed
	Fence  uint64 // the highest that was shown
	Who    string
	Older  bool // there are several holders, and all of them end
	Token  string
	Reason string // that the user has typed
}

// offerBreak adds the form to the page of a lock, or why there is none.
func (d *Dashboard) offerBreak(p *page, l *lockView, b *lockBody) {
	if n, err := strconv.Atoi(p.query.Get("broken")); err == nil && !p.Fragment {
		b.Done = broken(l.Kind, n)
	}
	switch {
	case len(l.Holders) == 0 || p.Fragment:
		return
	case d.options.ReadOnly:
		b.MayNot = "These pages are read-only. In a terminal: " + p.breakCommand(l)
		return
	case !d.breaks(p.id, l.Name):
		b.MayNot = "You may not break this lock here: that needs the permission break on its name."
		return
	case b.Fence == 0:
		b.MayNot = "The claim has no fencing token, so a break could hit the next holder. In a terminal: " + p.breakCommand(l)
		return
	}
	who := holder(l.Holders[0].Holder)
	if len(l.Holders) > 1 {
		who = number(len(l.Holders)) + " holders"
	}
	b.Break = &breakForm{
		Word: l.Kind.Word(), Noun: nouns[l.Kind], Stored: l.Kind == names.Once && l.Holders[0].Kept, Name: l.Name, Type: typed(l.Name), Fence: b.Fence, Who: who, Older: len(l.Holders) > 1, Token: d.formToken(p.id, l.Key),
	}
	p.secret = true
}

// breakCommand returns the command of a break, for a terminal.
func (p *page) breakCommand(l *lockView) string {
	kind := ""
	if l.Kind != names.Lock {
		kind = " --kind " + l.Kind.Word()
	}
	return "distlock break --store " + p.Address + kind + " --reason '...' " + shellQuote(l.Name)
}

func broken(kind names.Kind, n int) string {
	switch {
	case n == 0:
		return "Nothing was broken: the claim that was shown had ended before."
	case kind == names.Once:
		return count(n, "claim") + " ended. A result that was stored is gone, and the next call does the work again."
	}
	return count(n, "claim") + " ended. The old holder learns of it at its next renewal, and may be at work until then."
}

// typed returns what a user types to confirm.
func typed(name string) string {
	if text(name) == name {
		return name
	}
	return "break"
}

// formToken returns the token of the form of a key. Only a page that this identity was shown has
// it.
func (d *Dashboard) formToken(id *access.Identity, key string) string {
	m := hmac.New(sha256.New, d.key)
	fmt.Fprintf(m, "break\x00%q\x00%q", id.Name, key)
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

// breakLock breaks the lock of a form.
func (d *Dashboard) breakLock(w http.ResponseWriter, r *http.Request, id *access.Identity) {
	r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
	if err := r.ParseForm(); err != nil {
		d.fail(w, r, id, http.StatusBadRequest, "The form could not be read.")
		return
	}
	kind, ok := names.Parse(r.PostForm.Get("kind"))
	name, reason := r.PostForm.Get("name"), strings.TrimSpace(r.PostForm.Get("reason"))
	fence, err := strconv.ParseUint(r.PostForm.Get("fence"), 10, 64)
	key := kind.Key(name)
	switch {
	case !d.breaks(id, name):
		d.fail(w, r, id, http.StatusForbidden, "You may not break this lock here.")
		return
	case !hmac.Equal([]byte(r.PostForm.Get("token")), []byte(d.formToken(id, key))):
		d.fail(w, r, id, http.StatusForbidden, "The form is not from a page that you were shown, or the server was started again meanwhile. Open the page of the lock again.")
		return
	case !ok || name == "" || err != nil || fence == 0:
		d.fail(w, r, id, http.StatusBadRequest, "The form is not complete.")
		return
	}
	if why := checkForm(r.PostForm.Get("confirm"), name, reason); why != "" {
		d.fail(w, r, id, http.StatusUnprocessableEntity, why)
		return
	}
	breaks := d.options.Break
	if breaks == nil {
		breaks = d.breakStore
	}
	claims, err := breaks(r.Context(), id, key, fence, reason)
	d.scanner.expire()
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		d.fail(w, r, id, http.StatusNotImplemented, "This store cannot take a lock from its holder.")
	case err != nil:
		d.fail(w, r, id, http.StatusBadGateway, "The lock may or may not be broken: "+text(err.Error()))
	default:
		to := lockPath(kind, name)
		sep := "?"
		if strings.Contains(to, "?") {
			sep = "&"
		}
		//nolint:gosec // it is the way to a page of the dashboard: lockPath escapes the name
		http.Redirect(w, r, root(r)+to+sep+"broken="+strconv.Itoa(len(claims)), http.StatusSeeOther)
	}
}

// checkForm returns what is wrong with what the user has typed, or "".
func checkForm(confirm, name, reason string) string {
	switch {
	case strings.TrimSpace(confirm) != typed(name):
		return "The name that you typed is another one. Nothing was broken."
	case reason == "":
		return "A reason is missing: the holder is shown it. Nothing was broken."
	case len(reason) > maxReason:
		return fmt.Sprintf("The reason is longer than %d bytes. Nothing was broken.", maxReason)
	}
	return ""
}

// breakStore calls the store of the dashboard.
func (d *Dashboard) breakStore(ctx context.Context, _ *access.Identity, key string, upTo uint64, reason string) ([]driver.Claim, error) {
	ctx, cancel := context.WithTimeout(ctx, breakLimit)
	defer cancel()
	return driver.Break(ctx, d.store, key, upTo, reason)
}
