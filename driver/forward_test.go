package driver_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"testing"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/drivertest"
	"github.com/distlock/distlock/store/mem"
)

func TestForward(t *testing.T) {
	drivertest.Run(t, drivertest.Env{
		Virtual: true,
		Many:    100,
		Open:    func(testing.TB) driver.Store { return driver.Forward{Store: mem.New()} },
	})
}

// A verb that the wrapped store lacks is lacking.
func TestForward_without_verbs(t *testing.T) {
	ctx, s := t.Context(), driver.Forward{Store: struct{ driver.Store }{mem.New()}}
	if driver.Watch(ctx, s, driver.ID{Key: "k", Owner: "o"}) != nil || driver.Losses(ctx, s) != nil {
		t.Error("a store that cannot watch returns a channel")
	}
	_, show := driver.Show(ctx, s, "k")
	_, inspect := driver.Inspect(ctx, s)
	_, broken := driver.Break(ctx, s, "k", 0, "test")
	var list error
	for _, err := range driver.List(ctx, s, "") {
		list = err
	}
	for verb, err := range map[string]error{"Show": show, "Inspect": inspect, "Break": broken, "List": list} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", verb, err)
		}
	}
	for _, r := range driver.RenewAll(ctx, s, make([]driver.Renewal, 2)) {
		if !errors.Is(r.Err, driver.ErrInvalid) {
			t.Errorf("RenewAll without a verb: %v", r.Err)
		}
	}
}

// TestForward_all_verbs fails when an optional verb is added that Forward does not forward.
func TestForward_all_verbs(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "verbs.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	verbs, forwards := 0, reflect.TypeFor[driver.Forward]()
	ast.Inspect(file, func(n ast.Node) bool {
		i, ok := n.(*ast.InterfaceType)
		if !ok {
			return true
		}
		for _, m := range i.Methods.List {
			for _, name := range m.Names {
				verbs++
				if _, ok := forwards.MethodByName(name.Name); !ok {
					t.Errorf("Forward has no %s", name.Name)
				}
			}
		}
		return false
	})
	if verbs == 0 {
		t.Error("no verbs found")
	}
}
