package main

import "testing"

// Two jobs never share a record, even if their names contain @ or %.
func TestRecordName(t *testing.T) {
	seen := map[string]string{}
	for _, pair := range [][2]string{{"a", "b@c"}, {"a@b", "c"}, {"a%40b", "c"}, {"a%2540b", "c"}, {"a", "b"}} {
		record := recordName(pair[0], pair[1])
		if other, ok := seen[record]; ok {
			t.Errorf("%q is the record of %q, and of %s", record, pair, other)
		}
		seen[record] = pair[0] + " and " + pair[1]
	}
}
