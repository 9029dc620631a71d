package typo

import "testing"

func TestOf(t *testing.T) {
	known := []string{"postgres", "redis", "rediss"}
	for _, tt := range []struct {
		word, want string
		most       int
		ok         bool
	}{
		{"redis", "redis", 0, true},
		{"reds", "redis", 1, true},
		{"redsi", "redis", 2, true},
		{"redsi", "redis", 1, false},
		{"postgress", "postgres", 1, true},
		{"nope", "redis", 2, false},
		{"", "redis", 5, true},
	} {
		if got, ok := Of(tt.word, known, tt.most); got != tt.want || ok != tt.ok {
			t.Errorf("Of(%q, within %d): %q, %v; want %q, %v", tt.word, tt.most, got, ok, tt.want, tt.ok)
		}
	}
	if got, ok := Of("redis", nil, 9); got != "" || ok {
		t.Errorf("no known words: %q, %v", got, ok)
	}
}
