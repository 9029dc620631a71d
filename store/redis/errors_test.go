package redis

import (
	"errors"
	"testing"

	"github.com/distlock/distlock/driver"
)

// The server refuses a user who lacks a permission before a script, or in the middle of one. Only
// the first has changed nothing.
func TestDefinite_stopped(t *testing.T) {
	for text, want := range map[string]bool{
		"NOPERM this user has no permissions to run the 'evalsha' command":                                                            true,
		"NOPERM User distlock has no permissions to run the 'evalsha' command":                                                        true,
		"NOPERM No permissions to access a key":                                                                                       true,
		"NOPERM ACL failure in script: User distlock has no permissions to run the 'hset' command script: 5f0e, on @user_script:12.":  false,
		"ERR The user executing the script can't run this command or subcommand script: 5f0e, on @user_script:12.":                    false,
		"NOPERM ACL failure in script: User distlock has no permissions to access the 'lock:a' key script: 5f0e, on @user_script:12.": false,
	} {
		if err := definite("key", ReplyError(text)); errors.Is(err, driver.ErrUnavailable) != want {
			t.Errorf("%s: %v; unavailable should be %v", text, err, want)
		}
	}
}
