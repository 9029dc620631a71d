package tokens

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distlock/distlock/server/access"
)

// reloadEvery is how often the file is looked at.
const reloadEvery = 500 * time.Millisecond

// The errors of clients. They say nothing that a client without a token could use: a token that was
// revoked and one that never was have the same.
var (
	ErrWrong   = errors.New("the token is wrong, or was revoked")
	ErrExpired = errors.New("the token has expired")
)

// A File is the file of a running server. A change of the file has effect within a second. Its
// methods are safe for concurrent use.
type File struct {
	path string
	log  *slog.Logger

	born    time.Time
	checked atomic.Int64 // when the file was looked at last, by time.Since(born)
	table   atomic.Pointer[table]

	mu     sync.Mutex // of reload
	seen   fs.FileInfo
	broken string // the error of the last try, which is logged once
}

// A table is the content of the file, for lookup.
type table struct {
	tokens map[string]*entry
	exact  map[string][]access.Permission
	wild   []Rule // identities that end in "*", without it
}

type entry struct {
	Token
	sum [sha256.Size]byte
}

// Open opens a file. The error is [ErrFile]. Later, a file that cannot be read leaves the content
// as it was, and the log says so. A nil logger logs nothing.
func Open(path string, log *slog.Logger) (*File, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	f := &File{path: path, log: log, born: time.Now()}
	info, err := os.Stat(path)
	if err != nil {
		return nil, errors.Join(ErrFile, err)
	}
	c, err := Read(path)
	if err != nil {
		return nil, err
	}
	f.seen = info
	f.table.Store(newTable(c))
	return f, nil
}

func newTable(c *Content) *table {
	t := &table{tokens: map[string]*entry{}, exact: map[string][]access.Permission{}}
	for _, one := range c.Tokens {
		e := &entry{Token: one}
		sum, _ := hex.DecodeString(one.SHA256) // it was checked
		copy(e.sum[:], sum)
		t.tokens[one.ID] = e
	}
	for _, r := range c.Rules {
		if stem, ok := strings.CutSuffix(r.Identity, "*"); ok {
			t.wild = append(t.wild, Rule{stem, r.Permission})
			continue
		}
		t.exact[r.Identity] = append(t.exact[r.Identity], r.Permission)
	}
	return t
}

// current returns the content. If it was not looked at for a while, current reads the file again if
// it has changed.
func (f *File) current() *table {
	if now := int64(time.Since(f.born)); now-f.checked.Load() > int64(reloadEvery) && f.mu.TryLock() {
		f.reload()
		f.checked.Store(now)
		f.mu.Unlock()
	}
	return f.table.Load()
}

// reload reads the file again if it has changed.
func (f *File) reload() {
	info, err := os.Stat(f.path)
	switch {
	case err != nil:
		f.fails("the file of tokens is gone, and its last content stays in use", err)
		return
	case f.broken == "" && os.SameFile(info, f.seen) && info.ModTime().Equal(f.seen.ModTime()) && info.Size() == f.seen.Size() && info.Mode() == f.seen.Mode():
		return
	}
	c, err := Read(f.path)
	if err != nil {
		f.fails("the file of tokens cannot be used, and its last content stays in use", err)
		return
	}
	f.seen, f.broken = info, ""
	f.table.Store(newTable(c))
	f.log.Info("the file of tokens was read again", "file", f.path, "tokens", len(c.Tokens))
}

// fails notes that the file could not be read. It is read again the next time, changed or not: the
// reason may be no part of the file, and a token may be revoked in it.
func (f *File) fails(text string, err error) {
	if err.Error() != f.broken {
		f.log.Error(text, "file", f.path, "error", err)
	}
	f.broken = err.Error()
}

// Authenticate returns the identity of a request's token. Without one, it returns nil. It is an
// Authenticator of package server.
func (f *File) Authenticate(r *http.Request) (*access.Identity, error) {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || !strings.HasPrefix(secret, prefix) {
		return nil, nil //nolint:nilnil // see server.Authenticator
	}
	return f.Check(secret)
}

// Check returns the identity of a token.
func (f *File) Check(secret string) (*access.Identity, error) {
	id, _, _ := strings.Cut(strings.TrimPrefix(secret, prefix), "_")
	e, known := f.current().tokens[id]
	if !known {
		e = &nobody // so that an unknown id takes the same time
	}
	sum := sha256.Sum256([]byte(secret))
	if same := subtle.ConstantTimeCompare(sum[:], e.sum[:]); same != 1 || !known {
		return nil, ErrWrong
	}
	return e.identity()
}

var nobody entry

// Lookup returns the identity of a token by its id, for a session that began with the token.
func (f *File) Lookup(id string) (*access.Identity, error) {
	e, known := f.current().tokens[id]
	if !known {
		return nil, ErrWrong
	}
	return e.identity()
}

// identity returns the identity of a token that has not expired.
func (e *entry) identity() (*access.Identity, error) {
	if !e.Expires.IsZero() && !time.Now().Before(e.Expires) {
		return nil, ErrExpired
	}
	return &access.Identity{Name: "token:" + e.Identity}, nil
}

// Permissions returns the permissions of an identity: its own, and those of the rules whose
// identity is a beginning of it.
func (f *File) Permissions(identity string) []access.Permission {
	t := f.current()
	out := t.exact[identity]
	for _, r := range t.wild {
		if strings.HasPrefix(identity, r.Identity) {
			out = append(slices.Clip(out), r.Permission)
		}
	}
	return out
}
