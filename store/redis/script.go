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

// A script is one operation of the store. The server runs all of it or nothing.
type script struct {
	text string
	sha  string // the name of the text on a server that has seen it
}

// scripts are the operations.
type scripts struct {
	acquire, renew, release, show, breaks, watch, birth script
}

// loadScripts returns the scripts of a store. floor is the Redis key of the floor, or "" for no
// floor.
func loadScripts(floor string) (s scripts) {
	include := strings.NewReplacer("--#include common\n", read("state")+read("common"), "--#include floor\n", read("floor"))
	for name, to := range map[string]*script{
		"acquire": &s.acquire, "renew": &s.renew, "release": &s.release,
		"show": &s.show, "break": &s.breaks, "watch": &s.watch, "birth": &s.birth,
	} {
		text := strings.ReplaceAll(include.Replace(read(name)), "@floor@", literal(floor))
		sum := sha1.Sum([]byte(text)) //nolint:gosec // see above
		*to = script{text: text, sha: hex.EncodeToString(sum[:])}
	}
	return s
}

// literal returns a text as a Lua literal.
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
		panic(err) // the file is not embedded
	}
	return string(text)
}
