package fence_test

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/fence"
)

func ExampleNew() {
	p, err := fence.New("invoice/42", 1763191200000000)
	fmt.Println(p, err)
	_, err = fence.New("invoice/42", 0)
	fmt.Println(errors.Is(err, fence.ErrInvalid))
	// Output:
	// 1763191200000000;exclusive;invoice%2F42 <nil>
	// true
}

func ExampleNameOf() {
	// A service that lets only the leader of an election change something.
	leader := func(*http.Request) string { return fence.NameOf(distlock.KindElection, "scheduler") }
	fmt.Println(leader(nil))
	// Output: ~lead/scheduler
}

func ExampleOf() {
	lease := lock("invoice/42")
	p, err := fence.Of(lease)
	fmt.Println(p.Fence() == lease.Fence(), err)
	// Output: true <nil>
}

func ExampleParse() {
	p, err := fence.Parse("7;exclusive;invoice%2F42")
	fmt.Println(p.Name(), p.Fence(), err)
	_, err = fence.Parse("7;shared;invoice%2F42")
	fmt.Println(err)
	// Output:
	// invoice/42 7 <nil>
	// fence: invalid: mode "shared": only the fences of exclusive locks are in order
}

func ExampleParseFence() {
	for _, s := range []string{"1763191200000000", "0", "+1", "01", "1e3", "9007199254740992"} {
		n, err := fence.ParseFence(s)
		fmt.Println(n, err)
	}
	// Output:
	// 1763191200000000 <nil>
	// 0 fence: invalid: fence "0" is not a number from 1 to 2^53-1
	// 0 fence: invalid: fence "+1" is not a number from 1 to 2^53-1
	// 0 fence: invalid: fence "01" is not a number from 1 to 2^53-1
	// 0 fence: invalid: fence "1e3" is not a number from 1 to 2^53-1
	// 0 fence: invalid: fence "9007199254740992" is not a number from 1 to 2^53-1
}

func ExampleProof_Name() {
	fmt.Println(earlier("invoice/42").Name())
	// Output: invoice/42
}

func ExampleProof_Fence() {
	fmt.Println(earlier("invoice/42").Fence())
	// Output: 1
}

func ExampleProof_Proof() {
	fmt.Println(earlier("invoice/42").Proof())
	// Output: 1;exclusive;invoice%2F42
}
