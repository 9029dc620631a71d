package dashboard

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/distlock/distlock/server/access"
)

// sessionLife is how long a log-in lasts.
const sessionLife = 12 * time.Hour

// Tokens are what a log-in needs to know of the tokens of a server.
type Tokens interface {
	// LogIn returns the id of a token, which is no secret, or an error if the token is not valid.
	LogIn(token string) (id string, err error)

	// Identity returns the identity of a token with an id, or an error if the token has expired or
	// was revoked.
	Identity(id string) (*access.Identity, error)
}

// Sessions are log-ins of people. A token is typed once. The browser gets a signed cookie with the
// id of the token and not the token itself: a cookie of localhost is sent to every program there.
// Sessions keep nothing: servers with the same key accept the cookies of each other. A session ends
// after 12 hours, and with its token.
type Sessions struct {
	key    []byte
	tokens Tokens
}

// NewSessions returns sessions with the key in a file. If there is no such file, it is made, for
// this user alone. A file that others can read is refused.
func NewSessions(file string, t Tokens) (*Sessions, error) {
	key, err := os.ReadFile(file) //nolint:gosec // the operator names the file
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeKey(file); err != nil {
			return nil, err
		}
		key, err = os.ReadFile(file) //nolint:gosec // as above
	}
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, err
	case !private(info.Mode()):
		return nil, fmt.Errorf("dashboard: %s can be read by others: make it chmod 600", file)
	case len(key) < 32:
		return nil, fmt.Errorf("dashboard: %s is no key: remove it, and a new one is made", file)
	}
	return &Sessions{key: key, tokens: t}, nil
}

// makeKey makes the file of the key, in one step: another server may make it at the same time.
func makeKey(file string) error {
	temp := file + "." + rand.Text()
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	if err := os.WriteFile(temp, key, 0o600); err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp) }()
	if err := os.Link(temp, file); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// derive returns a key for another use.
func (s *Sessions) derive(use string) []byte {
	m := hmac.New(sha256.New, s.key)
	m.Write([]byte(use))
	return m.Sum(nil)
}

// cookieName returns the name of the cookie. Browsers accept the prefix __Host- only with TLS.
func cookieName(r *http.Request) string {
	if r.TLS != nil {
		return "__Host-distlock"
	}
	return "distlock-session"
}

// sign returns the text of a cookie.
func (s *Sessions) sign(tokenID string, ends time.Time) string {
	body := "v1." + base64.RawURLEncoding.EncodeToString([]byte(tokenID)) + "." + strconv.FormatInt(ends.Unix(), 10)
	return body + "." + s.mac(body)
}

func (s *Sessions) mac(body string) string {
	m := hmac.New(sha256.New, s.derive("cookies"))
	m.Write([]byte(body))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

// verify returns the id of the token in the text of a cookie.
func (s *Sessions) verify(cookie string, now time.Time) (string, error) {
	at := strings.LastIndexByte(cookie, '.')
	if at < 0 || !hmac.Equal([]byte(cookie[at+1:]), []byte(s.mac(cookie[:at]))) {
		return "", ErrLogIn
	}
	parts := strings.Split(cookie[:at], ".")
	if len(parts) != 3 || parts[0] != "v1" {
		return "", ErrLogIn
	}
	id, err := base64.RawURLEncoding.DecodeString(parts[1])
	ends, also := strconv.ParseInt(parts[2], 10, 64)
	if err != nil || also != nil || now.Unix() >= ends {
		return "", ErrLogIn
	}
	return string(id), nil
}

// Identity returns the identity of the session of a request. The error is [ErrLogIn] if it has
// none.
func (s *Sessions) Identity(r *http.Request) (*access.Identity, error) {
	c, err := r.Cookie(cookieName(r))
	if err != nil {
		return nil, ErrLogIn
	}
	id, err := s.verify(c.Value, time.Now())
	if err != nil {
		return nil, err
	}
	who, err := s.tokens.Identity(id)
	if err != nil {
		return nil, ErrLogIn
	}
	return who, nil
}

// has reports whether a request has a session.
func (s *Sessions) has(r *http.Request) bool {
	_, err := s.Identity(r)
	return err == nil
}

// set sends a cookie. Without a text it removes the cookie.
func (s *Sessions) set(w http.ResponseWriter, r *http.Request, value string) {
	c := &http.Cookie{ //nolint:gosec // browsers accept Secure only with TLS
		Name: cookieName(r), Value: value, Path: "/", HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
		MaxAge: int(sessionLife / time.Second),
	}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// A loginBody is the log-in form.
type loginBody struct{ Failed string }

// logIn shows the log-in form, or begins a session.
func (d *Dashboard) logIn(w http.ResponseWriter, r *http.Request, post bool) {
	s := d.options.Sessions
	if s == nil {
		d.fail(w, r, nil, http.StatusNotFound, "These pages have no log-in.")
		return
	}
	p := d.newPage(r, nil, "login")
	p.Title = "Log in"
	body := loginBody{}
	if post {
		r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
		id, err := s.tokens.LogIn(strings.TrimSpace(r.PostFormValue("token")))
		if err == nil {
			s.set(w, r, s.sign(id, time.Now().Add(sessionLife)))
			http.Redirect(w, r, root(r), http.StatusSeeOther)
			return
		}
		p.status, body.Failed = http.StatusUnauthorized, "This token is not valid: it is unknown, has expired or was revoked."
	}
	p.Body = body
	d.send(w, p)
}

// logOut ends the session of the browser.
func (d *Dashboard) logOut(w http.ResponseWriter, r *http.Request) {
	if s := d.options.Sessions; s != nil {
		s.set(w, r, "")
	}
	http.Redirect(w, r, root(r)+"login", http.StatusSeeOther)
}
