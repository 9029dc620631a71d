//go:build !race

package quorum_test

// thin halves the long tests; make chaos runs them whole.
const thin = 2
