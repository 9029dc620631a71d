//go:build race

package guarantees_test

// raceDetector is true if the race detector is on, which needs much more memory.
const raceDetector = true
