//go:build race

package quorum_test

// thin divides the long tests where every step costs ten times as much.
const thin = 10
