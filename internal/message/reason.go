package message

import (
	"errors"
	"strings"

	"connectrpc.com/connect"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
)

// kinds are the kinds of errors that a store reports, with the errors that they stand for. A kind
// that is missing here leaves the outcome unknown.
var kinds = []struct {
	kind api.Reason_Kind
	err  error
}{
	{api.Reason_KIND_NOT_HELD, driver.ErrNotHeld},
	{api.Reason_KIND_INVALID, driver.ErrInvalid},
	{api.Reason_KIND_UNAVAILABLE, driver.ErrUnavailable},
	{api.Reason_KIND_UNSUPPORTED, errors.ErrUnsupported},
	{api.Reason_KIND_OTHER_STORE, driver.ErrUnavailable},
	{api.Reason_KIND_DRAINING, driver.ErrUnavailable},
	{api.Reason_KIND_UNAUTHENTICATED, driver.ErrUnavailable}, // until the client has new credentials
	{api.Reason_KIND_LIMITED, driver.ErrUnavailable},
	{api.Reason_KIND_DENIED, driver.ErrInvalid}, // it would fail again
}

// The errors of clients that a server refuses, next to those of package driver.
var (
	ErrUnauthenticated = errors.New("message: not authenticated")
	ErrDenied          = errors.New("message: permission denied")
)

var also = map[api.Reason_Kind]error{
	api.Reason_KIND_UNAUTHENTICATED: ErrUnauthenticated, api.Reason_KIND_DENIED: ErrDenied,
}

// Reason returns the error of a store as a message. An error that has a reason keeps it.
func Reason(err error) *api.Reason {
	if r := ReasonOf(err); r != nil {
		return r
	}
	r := &api.Reason{Kind: api.Reason_KIND_UNKNOWN, Text: valid(err.Error())}
	var broken *driver.BrokenError
	if errors.As(err, &broken) {
		r.Kind, r.Broken = api.Reason_KIND_BROKEN, []byte(broken.Reason)
		return r
	}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			r.Kind = k.kind
			break
		}
	}
	return r
}

// ErrorOf returns the error that a message stands for. Its outcome is the one that the store
// reported.
func ErrorOf(r *api.Reason) error {
	if r.GetKind() == api.Reason_KIND_BROKEN {
		return &driver.BrokenError{Reason: string(r.GetBroken())}
	}
	e := &storeError{text: r.GetText(), also: also[r.GetKind()]}
	for _, k := range kinds {
		if k.kind == r.GetKind() {
			e.is = k.err
		}
	}
	return e
}

// A storeError is an error of the server's store.
type storeError struct {
	text string
	is   error // nil: the outcome is unknown
	also error // for callers that want to know more
}

func (e *storeError) Error() string { return e.text }

func (e *storeError) Is(target error) bool {
	return e.is != nil && target == e.is || e.also != nil && target == e.also
}

// codes are the codes of errors. A kind that is missing here is unknown.
var codes = map[api.Reason_Kind]connect.Code{
	api.Reason_KIND_INVALID:     connect.CodeInvalidArgument,
	api.Reason_KIND_UNSUPPORTED: connect.CodeUnimplemented,
	api.Reason_KIND_UNAVAILABLE: connect.CodeUnavailable,
	api.Reason_KIND_OTHER_STORE: connect.CodeUnavailable,
	api.Reason_KIND_DRAINING:    connect.CodeUnavailable,
	api.Reason_KIND_NOT_HELD:    connect.CodeFailedPrecondition,
	api.Reason_KIND_BROKEN:      connect.CodeFailedPrecondition,

	api.Reason_KIND_UNAUTHENTICATED: connect.CodeUnauthenticated,
	api.Reason_KIND_DENIED:          connect.CodePermissionDenied,
	api.Reason_KIND_LIMITED:         connect.CodeResourceExhausted,
}

// retryAfter is when a client over a limit may try again, in seconds: limits are per second.
const retryAfter = "1"

// Error returns the answer of a server that has a reason.
func Error(r *api.Reason) error {
	code, ok := codes[r.GetKind()]
	if !ok {
		code = connect.CodeUnknown
	}
	err := connect.NewError(code, errors.New(r.GetText()))
	if detail, failed := connect.NewErrorDetail(r); failed == nil {
		err.AddDetail(detail)
	}
	if r.GetKind() == api.Reason_KIND_LIMITED {
		err.Meta().Set("Retry-After", retryAfter)
	}
	return err
}

// ReasonOf returns the reason in an error of a call, or nil. An error without a reason is no answer
// of a server: the outcome is unknown.
func ReasonOf(err error) *api.Reason {
	var answer *connect.Error
	if !errors.As(err, &answer) {
		return nil
	}
	for _, d := range answer.Details() {
		if m, err := d.Value(); err == nil {
			if r, ok := m.(*api.Reason); ok {
				return r
			}
		}
	}
	return nil
}

// valid returns a text as UTF-8, which messages require.
func valid(text string) string { return strings.ToValidUTF8(text, "?") }
