package oidc_test

import (
	"fmt"

	"github.com/distlock/distlock/server/oidc"
)

// The issuer is called with the first token, and not before.
func ExampleNew() {
	issuer, err := oidc.New("https://token.actions.example.com", "distlock", nil)
	fmt.Println(issuer != nil, err)
	// Output: true <nil>
}
