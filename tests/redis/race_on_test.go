//go:build race

package redis_test

// raceDetector tells that memory is taken for every access to memory.
const raceDetector = true
