package pgadvisory

import (
	"crypto/sha256"
	"encoding/binary"
)

// Key returns the number of the advisory lock for a name: the first 64 bits of the name's SHA-256,
// signed. In SQL:
//
//	('x' || left(encode(sha256(convert_to('name', 'UTF8')), 'hex'), 16))::bit(64)::bigint
//
// Two names may have the same number. Then each refuses the other, and no lock is granted twice.
// With a million names in use at the same time, the probability of such a pair is one in 37
// million.
func Key(name string) int64 {
	sum := sha256.Sum256([]byte(name))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}
