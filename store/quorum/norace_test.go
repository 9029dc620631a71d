//go:build !race

package quorum_test

// thin leaves the long tests as they are.
const thin = 1
