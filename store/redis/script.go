package redis

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1; nothing is protected by it
	"embed"
	"encoding/hex"
	"fmt"
	"strings"
)

//go:embed lua/*.lua
var files embed.FS

// A script is one verb as the server runs it: all of it, or nothing.
type script struct {
	text string
	sha  string // by which the server knows the text, if it has seen it
}

// scripts are the verbs.
type scripts struct {
	acquire, renew, release, show, breaks, watch, birth script
}

// loadScripts returns the scripts of a store whose floor is a key; it has none if that is empty.
func loadScripts(floor string) (s scripts) {
	include := strings.NewReplacer("--#include common\n", read("common"), "--#include floor\n", strings.Replace(read("floor"), "@floor@", literal(floor), 1))
	for name, to := range map[string]*script{
		"acquire": &s.acquire, "renew": &s.renew, "release": &s.release,
		"show": &s.show, "break": &s.breaks, "watch": &s.watch, "birth": &s.birth,
	} {
		text := include.Replace(read(name))
		sum := sha1.Sum([]byte(text)) //nolint:gosec // see above
		*to = script{text: text, sha: hex.EncodeToString(sum[:])}
	}
	return s
}

// literal is a text as Lua reads it.
func literal(text string) string {
	out := []byte{'\''}
	for i := range len(text) {
		out = fmt.Appendf(out, `\%03d`, text[i])
	}
	return string(append(out, '\''))
}

func read(name string) string {
	text, err := files.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // it is not in the program
	}
	return string(text)
}
