// Package typo finds the known word that a misspelled word may stand for.
package typo

import "slices"

// Of returns the known word that is nearest to word, or the first of several. It reports whether at
// most limit letters differ.
func Of(word string, known []string, limit int) (string, bool) {
	if len(known) == 0 {
		return "", false
	}
	best := slices.MinFunc(known, func(a, b string) int { return distance(word, a) - distance(word, b) })
	return best, distance(word, best) <= limit
}

// distance returns how many letters must change to turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := corner
			if a[i] != b[j] {
				change++
			}
			corner = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
