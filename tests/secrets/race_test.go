//go:build race

package secrets_test

// racing says whether the race detector looks on.
const racing = true
