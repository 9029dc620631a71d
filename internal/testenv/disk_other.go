//go:build !linux

package testenv

func mount(string, int64) error {
	return &missingError{"disk of a chosen size", "run the tests on Linux"}
}

func unmount(string) error { return nil }

func full(error) bool { return false }
