//go:build !race

package guarantees_test

const raceDetector = false
