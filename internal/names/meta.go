package names

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// The bounds of the data that a caller stores with a claim, in bytes.
const (
	MaxHolder = 128
	MaxValue  = 64 << 10
)

// Metadata is for people; these bounds keep it so.
const (
	maxMeta      = 16
	maxMetaKey   = 64
	maxMetaValue = 256
	maxMetaAll   = 4 << 10
)

// Note is the key of the note in the metadata. Keys with an underscore are ours.
const Note = "_note"

// LabelFlaw returns why a caller may not use a key of metadata, or "" if it may.
func LabelFlaw(key string) string {
	if strings.HasPrefix(key, "_") {
		return fmt.Sprintf("key %s: a leading underscore is reserved", Quote(key))
	}
	return ""
}

// MetaFlaw returns why a claim cannot have this metadata, or "" if it can.
func MetaFlaw(meta map[string]string) string {
	all := 0
	for _, k := range slices.Sorted(maps.Keys(meta)) {
		v := meta[k]
		if why := TextFlaw(k, maxMetaKey); why != "" {
			return "key: " + why
		}
		if len(v) > maxMetaValue || !utf8.ValidString(v) {
			return fmt.Sprintf("the value of %s must be UTF-8 of at most %d bytes", Quote(k), maxMetaValue)
		}
		all += len(k) + len(v)
	}
	if len(meta) > maxMeta || all > maxMetaAll {
		return fmt.Sprintf("%d entries of %d bytes are over %d or %d", len(meta), all, maxMeta, maxMetaAll)
	}
	return ""
}
