package open_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/distlock/distlock/open"
)

// A secret may contain every letter that a URL allows there, and some that users write although it
// does not.
func TestRedact_lettersOfSecrets(t *testing.T) {
	for _, letter := range strings.Split(`!$&'()*+,;=-._~:@/?#"|^[]{}<>\`+"`%", "") {
		for _, url := range []string{
			"redis://u:%shunter2@h/0", "redis://:%shunter2@h/0", "rediss://u%[2]sv:%[1]shunter2@h/0", "redlock:?node=redis://a:1&node=redis://u:%shunter2@b",
			"redlock:?node=redis://u:%shunter2@b&node=redis://a:1", "postgres://h/db?password=%shunter2", "redis+sentinel://h?sentinel_password=%shunter2&master_name=m",
		} {
			if strings.Contains(url, "password=") && letter == "&" || strings.Contains(url, "%[2]s") && !strings.Contains("!$&'()*+,;=-._~", letter) {
				continue // it ends the value, or cannot be in a user
			}
			text := fmt.Sprintf(strings.ReplaceAll(strings.ReplaceAll(url, "%s", "%[1]s"), "%[2]s", letter), "top"+letter)
			for how, shown := range map[string]string{
				"Redact": open.Redact(text), "Redact of a text": open.Redact("dial '" + text + "': refused"), "Redactor": open.Redactor(text)(text),
			} {
				if strings.Contains(shown, "hunter2") {
					t.Errorf("%s of %s: %s", how, text, shown)
				}
			}
			if !open.HasSecret(text) {
				t.Errorf("HasSecret of %s is false", text)
			}
		}
	}
	for _, text := range []string{"redis://u:top hunter2@h/0", "postgres://h/db?password=top hunter2"} { // in a URL, a space ends nothing
		if got := open.Redactor(text)(text); strings.Contains(got, "hunter2") || !open.HasSecret(text) {
			t.Errorf("%s: %s", text, got)
		}
	}
	for _, text := range []string{"redis://h:6379/0", "postgres://u@h/db", "redlock:?node=redis://a:1&node=redis://b:2", "sqlite:///var/lib/o'neil.db"} {
		if got := open.Redactor(text)(text); got != text || open.HasSecret(text) {
			t.Errorf("%s has no secret: %s", text, got)
		}
	}
}
