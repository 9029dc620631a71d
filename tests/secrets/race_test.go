//go:build race

package secrets_test

// raceDetector reports whether the race detector is on.
const raceDetector = true
