// Package tokens keeps the tokens of a lock server's clients, and the permissions of all
// identities, in a TOML file.
//
//	[[token]]
//	id = "k7q2m4x9ab"
//	identity = "ci"                # the identity is token:ci
//	sha256 = "..."                 # of the token; the token itself is not stored
//	expires = 2027-02-16T12:00:00Z
//
//	[[permission]]
//	identity = "token:ci"          # or a prefix of identities, such as "mtls:spiffe://prod/*"
//	names = "team-a/"              # all names below it; "deploy": this name only; "*": all names
//	verbs = "acquire,observe"
//	max_ttl = "1h"
//	max_keep = "30d"
//
// The command distlock token changes the file, by [Add] and [Revoke]. A server reads it through a
// [File]. Several tokens may have one identity. So a new token can replace an old one while both
// are in use.
package tokens

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/distlock/distlock/internal/names"
	"github.com/distlock/distlock/server/access"
)

// maxFile is the largest size of the file.
const maxFile = 16 << 20

// ErrFile means that the file is not as it should be: it cannot be read, is malformed, or others
// may write to it.
var ErrFile = errors.New("tokens: bad file")

// A Token is what the file knows about a token.
type Token struct {
	ID       string    `toml:"id"`
	Identity string    `toml:"identity"` // without "token:"
	SHA256   string    `toml:"sha256"`   // of the token, in hexadecimal digits
	Created  time.Time `toml:"created,omitempty"`
	Expires  time.Time `toml:"expires,omitempty"` // zero: never
}

// A Rule gives an identity a permission.
type Rule struct {
	Identity string // such as "token:ci"; with "*" at its end: all that begin so
	access.Permission
}

// rule is a Rule as it is in the file.
type rule struct {
	Identity string `toml:"identity"`
	Names    string `toml:"names"`
	Verbs    string `toml:"verbs"`
	MaxTTL   string `toml:"max_ttl,omitempty"`
	MaxKeep  string `toml:"max_keep,omitempty"`
}

// Content is the content of a file.
type Content struct {
	Tokens []Token
	Rules  []Rule
}

type document struct {
	Tokens      []Token `toml:"token"`
	Permissions []rule  `toml:"permission"`
}

// Read reads a file. The error is [ErrFile], and has nothing of the file's content that is secret.
func Read(path string) (*Content, error) {
	f, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	if why := writable(info); why != "" {
		return nil, fmt.Errorf("%w: %s: %s", ErrFile, path, why)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	case len(text) > maxFile:
		return nil, fmt.Errorf("%w: %s has more than %d bytes", ErrFile, path, maxFile)
	}
	c, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrFile, path, err)
	}
	return c, nil
}

// parse reads the content of a file. Whatever it does not understand is an error: a key that is
// misspelled must not give rights, or take them.
func parse(text []byte) (*Content, error) {
	var d document
	meta, err := toml.Decode(string(text), &d)
	var malformed toml.ParseError
	switch {
	case errors.As(err, &malformed):
		return nil, fmt.Errorf("line %d is malformed", malformed.Position.Line)
	case err != nil:
		return nil, errors.New("a value has the wrong type")
	case len(meta.Undecoded()) > 0:
		return nil, fmt.Errorf("unknown key %.64q", meta.Undecoded()[0].String())
	}
	c := &Content{Tokens: d.Tokens}
	seen := map[string]bool{}
	for i, t := range d.Tokens {
		if err := t.check(); err != nil {
			return nil, fmt.Errorf("token %d: %w", i+1, err)
		}
		if seen[t.ID] {
			return nil, fmt.Errorf("token %d: there is another one with the id %s", i+1, t.ID)
		}
		seen[t.ID] = true
	}
	for i, one := range d.Permissions {
		r, err := one.parse()
		if err != nil {
			return nil, fmt.Errorf("permission %d: %w", i+1, err)
		}
		c.Rules = append(c.Rules, r)
	}
	return c, nil
}

func (t *Token) check() error {
	if why := names.TextFlaw(t.ID, 64); why != "" || strings.ContainsAny(t.ID, "_ ") {
		return errors.New("its id is no id")
	}
	if sum, err := hex.DecodeString(t.SHA256); err != nil || len(sum) != sha256.Size {
		return errors.New("sha256 has not 64 hexadecimal digits")
	}
	return checkIdentity(t.Identity)
}

// checkIdentity returns why the name of a token's identity is wrong.
func checkIdentity(name string) error {
	if why := names.TextFlaw(name, 128); why != "" {
		return fmt.Errorf("the identity is %s", why)
	}
	if strings.ContainsAny(name, "*: \t") {
		return fmt.Errorf("the identity %s contains a space, a colon or an asterisk", names.Quote(name))
	}
	return nil
}

func (r rule) parse() (out Rule, err error) {
	stem := strings.TrimSuffix(r.Identity, "*")
	if why := names.TextFlaw(r.Identity, 1024); why != "" || strings.Contains(stem, "*") || !strings.Contains(stem, ":") {
		return out, fmt.Errorf("%s is no identity: want such as \"token:ci\" or \"mtls:spiffe://prod/*\"", names.Quote(r.Identity))
	}
	out.Identity = r.Identity
	if out.Names, err = checkNames(r.Names); err != nil {
		return out, err
	}
	if out.Verbs, err = access.ParseVerbs(r.Verbs); err != nil {
		return out, err
	}
	if out.MaxTTL, err = duration("max_ttl", r.MaxTTL); err != nil {
		return out, err
	}
	out.MaxKeep, err = duration("max_keep", r.MaxKeep)
	return out, err
}

// checkNames returns the names of a permission, or why they are none.
func checkNames(s string) (string, error) {
	if why := names.Flaw(s); why != "" {
		return "", fmt.Errorf("the names of a permission: %s", why)
	}
	if s != "*" && strings.Contains(s, "*") {
		return "", fmt.Errorf("the names %s: write team-a/ for all names below team-a, and * alone for all names", names.Quote(s))
	}
	return s, nil
}

func duration(what, s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%s: %.32q is no duration, such as 90s, 12h or 30d", what, s)
	}
	return d, nil
}

// ParseDuration is [time.ParseDuration], which also takes days: "90d".
func ParseDuration(s string) (time.Duration, error) {
	days, ok := strings.CutSuffix(s, "d")
	if !ok {
		return time.ParseDuration(s)
	}
	n, err := strconv.Atoi(days)
	if err != nil || n < 0 || n > 36500 {
		return 0, fmt.Errorf("%.32q is no number of days", days)
	}
	return time.Duration(n) * 24 * time.Hour, nil
}

// ParseAllow reads a permission as the command has it: 'team-a/=acquire,observe'.
func ParseAllow(s string) (p access.Permission, err error) {
	at := strings.LastIndex(s, "=") // a name may contain one
	if at < 0 {
		return p, fmt.Errorf("%s: want NAMES=VERBS, such as team-a/=acquire,observe", names.Quote(s))
	}
	if p.Names, err = checkNames(s[:at]); err != nil {
		return p, err
	}
	p.Verbs, err = access.ParseVerbs(s[at+1:])
	return p, err
}

const header = "# The tokens of a lock server, and the permissions of its clients.\n" +
	"# distlock token changes this file, and does not keep other comments.\n"

// text returns the content as a file.
func (c *Content) text() ([]byte, error) {
	d := document{Tokens: c.Tokens}
	for _, r := range c.Rules {
		one := rule{Identity: r.Identity, Names: r.Names, Verbs: r.Verbs.String()}
		if r.MaxTTL > 0 {
			one.MaxTTL = r.MaxTTL.String()
		}
		if r.MaxKeep > 0 {
			one.MaxKeep = r.MaxKeep.String()
		}
		d.Permissions = append(d.Permissions, one)
	}
	b := bytes.NewBufferString(header)
	e := toml.NewEncoder(b)
	e.Indent = ""
	err := e.Encode(d)
	return b.Bytes(), err
}
