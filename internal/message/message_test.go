package message_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/message"
)

// fill sets every field of a value to something that is not zero, and different for each. Texts are
// not UTF-8 where the contract allows any bytes.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n) % 4)
		if v.Type().Name() != "Level" {
			v.SetInt(int64(*n) << 40)
		}
	case reflect.Uint64:
		v.SetUint(uint64(*n) << 40)
	case reflect.String:
		v.SetString(fmt.Sprint("text ", *n))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), n)
		}
	case reflect.Uint8:
		v.SetUint(uint64(*n) % 256)
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"\xff": "\xfe", "": fmt.Sprint(*n)}))
	default:
		panic(v.Kind())
	}
}

// sent returns a message as it arrives.
func sent[M proto.Message](t *testing.T, m M) M {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	got := m.ProtoReflect().New().Interface().(M)
	if err := proto.Unmarshal(data, got); err != nil {
		t.Fatal(err)
	}
	return got
}

// Every field of the contract arrives, also one that is added later.
func TestMessages(t *testing.T) {
	check(t, func(r driver.Request) driver.Request { return message.RequestOf(sent(t, message.Request(r))) })
	check(t, func(r driver.Result) driver.Result { return message.ResultOf(sent(t, message.Result(r))) })
	check(t, func(c driver.Claim) driver.Claim { return message.ClaimOf(sent(t, message.Claim(c))) })
	check(t, func(r driver.Renewal) driver.Renewal { return message.RenewalOf(sent(t, message.Renewal(r))) })
	check(t, func(f driver.Features) driver.Features { return message.FeaturesOf(sent(t, message.Features(f))) })
	check(t, func(i driver.Info) driver.Info { return message.InfoOf(sent(t, message.Info(i))) })
}

func check[T any](t *testing.T, there func(T) T) {
	t.Helper()
	for _, full := range []bool{true, false} {
		var want T
		if full {
			n := 0
			fill(reflect.ValueOf(&want).Elem(), &n)
		}
		if got := there(want); !reflect.DeepEqual(got, want) {
			t.Errorf("arrived: %+v\n    want: %+v", got, want)
		}
	}
}

// A renewal without a value keeps the old one, and a renewal with an empty value removes it.
func TestRenewal_value(t *testing.T) {
	for _, value := range [][]byte{nil, {}, {0xff}} {
		r := driver.Renewal{Value: value}
		if got := message.RenewalOf(sent(t, message.Renewal(r))).Value; (got == nil) != (value == nil) || len(got) != len(value) {
			t.Errorf("value %#v arrives as %#v", value, got)
		}
	}
}

// Keys and owners are bytes.
func TestID(t *testing.T) {
	id := driver.ID{Key: "\xff\x00", Owner: "\xfe"}
	if got := message.IDOf(sent(t, message.ID(id))); got != id {
		t.Errorf("%q arrives as %q", id, got)
	}
}

// An error arrives as the outcome that the store reported, and as no other.
func TestReason(t *testing.T) {
	outcomes := []error{driver.ErrNotHeld, driver.ErrInvalid, driver.ErrUnavailable, errors.ErrUnsupported,
		context.Canceled, context.DeadlineExceeded}
	for _, err := range []error{
		driver.ErrNotHeld,
		&driver.BrokenError{Reason: "\xff burnt"},
		fmt.Errorf("%w: a TTL", driver.ErrInvalid),
		fmt.Errorf("%w: read-only\xff", driver.ErrUnavailable),
		fmt.Errorf("no list: %w", errors.ErrUnsupported),
		errors.New("connection reset"),
		context.DeadlineExceeded,
	} {
		got := message.ErrorOf(message.ReasonOf(fmt.Errorf("call: %w", message.Error(sent(t, message.Reason(err))))))
		for _, is := range outcomes[:4] {
			if errors.Is(got, is) != errors.Is(err, is) {
				t.Errorf("%v arrives as %v: is %v", err, got, is)
			}
		}
		for _, is := range outcomes[4:] { // the ctx of the server is not that of the caller
			if errors.Is(got, is) {
				t.Errorf("%v arrives as %v", err, is)
			}
		}
		var want, broken *driver.BrokenError
		if errors.As(err, &want) && (!errors.As(got, &broken) || *broken != *want) {
			t.Errorf("%v arrives as %v", err, got)
		}
	}
	for _, err := range []error{nil, errors.New("reset"), message.Error(&api.Reason{})} {
		if r := message.ReasonOf(err); r != nil && errors.Is(message.ErrorOf(r), driver.ErrUnavailable) {
			t.Errorf("%v is an answer", err)
		}
	}
}

// A refusal of the server is definite: the call changed nothing.
func TestReason_refusals(t *testing.T) {
	for kind, want := range map[api.Reason_Kind][]error{
		api.Reason_KIND_UNAUTHENTICATED: {driver.ErrUnavailable, message.ErrUnauthenticated},
		api.Reason_KIND_DENIED:          {driver.ErrInvalid, message.ErrDenied},
		api.Reason_KIND_LIMITED:         {driver.ErrUnavailable},
	} {
		err := message.Error(&api.Reason{Kind: kind, Text: "no"})
		if got := message.Reason(fmt.Errorf("call: %w", err)).GetKind(); got != kind {
			t.Errorf("%v becomes %v", kind, got)
		}
		got := message.ErrorOf(message.ReasonOf(err))
		for _, is := range want {
			if !errors.Is(got, is) {
				t.Errorf("%v is not %v", kind, is)
			}
		}
		if errors.Is(got, driver.ErrNotHeld) || errors.Is(got, message.ErrDenied) != (kind == api.Reason_KIND_DENIED) {
			t.Errorf("%v arrives as %v", kind, got)
		}
	}
}
