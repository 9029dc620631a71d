package tokens

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/distlock/distlock/server/access"
)

const (
	// prefix begins every token, so that programs that search for secrets find it.
	prefix = "dl_"

	idLen     = 10
	secretLen = 32 // bytes
)

// ErrUnknown means that there is no such token.
var ErrUnknown = errors.New("tokens: no such token")

// Add makes a new token of an identity, and returns it. The file has only its hash. A file that
// does not exist is made, with the mode 0600.
//
// An identity that is new needs permissions. One that has tokens already has its permissions too: a
// further token has the same, and permissions that differ are an error. Expires is the end of the
// token; the zero time: never.
func Add(path, identity string, allow []access.Permission, expires time.Time) (secret string, t Token, err error) {
	if err := checkIdentity(identity); err != nil {
		return "", t, err
	}
	raw := make([]byte, secretLen)
	_, _ = rand.Read(raw) // it never fails
	t = Token{
		ID: strings.ToLower(rand.Text()[:idLen]), Identity: identity,
		Created: time.Now().UTC().Truncate(time.Second), Expires: expires.UTC().Truncate(time.Second),
	}
	secret = prefix + t.ID + "_" + base64.RawURLEncoding.EncodeToString(raw)
	sum := sha256.Sum256([]byte(secret))
	t.SHA256 = hex.EncodeToString(sum[:])
	err = change(path, func(c *Content) error {
		if err := c.permit("token:"+identity, allow); err != nil {
			return err
		}
		c.Tokens = append(c.Tokens, t)
		return nil
	})
	return secret, t, err
}

// permit gives an identity its permissions.
func (c *Content) permit(identity string, allow []access.Permission) error {
	var has []access.Permission
	for _, r := range c.Rules {
		if r.Identity == identity {
			has = append(has, r.Permission)
		}
	}
	switch {
	case len(has) == 0 && len(allow) == 0:
		return fmt.Errorf("%s has no permissions yet: say what it may do, such as --allow 'team-a/=acquire,observe'", identity)
	case len(has) > 0 && len(allow) > 0 && !slices.Equal(has, allow):
		return fmt.Errorf("%s has other permissions already: leave --allow out for a further token with the same permissions, "+
			"or change them in the file", identity)
	case len(has) > 0:
		return nil
	}
	for _, p := range allow {
		c.Rules = append(c.Rules, Rule{identity, p})
	}
	return nil
}

// Revoke removes tokens by their ids. With the last token of an identity, its permissions are
// removed too. If there is no such token, the error is [ErrUnknown], and nothing is removed.
func Revoke(path string, ids ...string) error {
	if _, err := os.Stat(path); err != nil { // a file that is misspelled must not look like one without the token
		return fmt.Errorf("%w: %w", ErrFile, err)
	}
	return change(path, func(c *Content) error {
		for _, id := range ids {
			at := slices.IndexFunc(c.Tokens, func(t Token) bool { return t.ID == id })
			if at < 0 {
				return fmt.Errorf("%w: %.64q", ErrUnknown, id)
			}
			name := c.Tokens[at].Identity
			c.Tokens = slices.Delete(c.Tokens, at, at+1)
			if !slices.ContainsFunc(c.Tokens, func(t Token) bool { return t.Identity == name }) {
				c.Rules = slices.DeleteFunc(c.Rules, func(r Rule) bool { return r.Identity == "token:"+name })
			}
		}
		return nil
	})
}

// change replaces the file by one with a changed content. A server sees the old file or the new
// one.
func change(path string, f func(*Content) error) (err error) {
	if to, err := filepath.EvalSymlinks(path); err == nil { // otherwise there is no file yet
		path = to
	}
	// The new file is a lock too: two changes at the same time would lose one of them.
	w, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the operator names the file
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %s.new exists: another change is under way, or was interrupted; remove it in the latter case", ErrFile, path)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFile, err)
	}
	defer func() {
		if w != nil {
			err = errors.Join(err, w.Close(), os.Remove(path+".new"))
		}
	}()
	c, err := Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		c, err = &Content{}, nil
	}
	if err != nil {
		return err
	}
	if err := f(c); err != nil {
		return err
	}
	text, err := c.text()
	if err != nil {
		return err
	}
	if old, err := os.Stat(path); err == nil {
		if err := inherit(w, old); err != nil {
			return fmt.Errorf("%w: the new file cannot have the owner and the mode of the old one: %w", ErrFile, err)
		}
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	if err := errors.Join(w.Sync(), w.Close()); err != nil {
		return err
	}
	w = nil
	if err := os.Rename(path+".new", path); err != nil {
		return errors.Join(err, os.Remove(path+".new"))
	}
	return syncDir(filepath.Dir(path))
}
