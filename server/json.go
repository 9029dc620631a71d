package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/distlock/distlock/internal/names"
	"github.com/distlock/distlock/internal/typo"
)

// strictJSON is the codec of JSON for people. A field that does not exist is an error: Connect
// itself ignores it, and "tll" would be a lock with the default TTL. Answers have all fields that
// are always there, also if they are false or empty.
type strictJSON struct{ name string }

// strict are the options of a handler with strict JSON.
func strict() connect.HandlerOption {
	return connect.WithHandlerOptions(
		connect.WithCodec(&strictJSON{"json"}), connect.WithCodec(&strictJSON{"json; charset=utf-8"}),
		connect.WithInterceptors(connect.UnaryInterceptorFunc(refuseFlaws)),
	)
}

// typed refuses requests whose content type no protocol has, with the right one. Connect answers
// them without a text, and curl sends a form by default.
func (s *Server) typed(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
		switch kind = strings.TrimSpace(kind); {
		case r.Method != http.MethodPost:
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "send JSON by POST, with the header Content-Type: application/json", http.StatusMethodNotAllowed)
			return
		case kind == "application/json", kind == "application/proto":
		case strings.HasPrefix(kind, "application/grpc"), strings.HasPrefix(kind, "application/connect+"):
		default:
			s.refuse(w, r, flaw("Content-Type", "it is %s: send JSON with the header Content-Type: application/json", names.Quote(kind)))
			return
		}
		h.ServeHTTP(w, r)
	})
}

// Name returns the name of the codec.
func (c *strictJSON) Name() string { return c.name }

// Marshal returns a message as JSON. protojson adds spaces at random, so that nobody relies on its
// form: people want it short.
func (c *strictJSON) Marshal(message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no message", message)
	}
	text, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	short := bytes.NewBuffer(text[:0])
	err = json.Compact(short, text)
	return short.Bytes(), err
}

// Unmarshal reads a message. Connect would answer an error of it without a Reason, so it does not
// return one but a message with a mark, which refuseFlaws finds.
func (c *strictJSON) Unmarshal(text []byte, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no message", message)
	}
	if err := (protojson.UnmarshalOptions{}).Unmarshal(text, m); err != nil {
		proto.Reset(m)
		mark(m, explain(text, m.ProtoReflect().Descriptor(), err))
	}
	return nil
}

// flawField is the number of the field that marks a message. It is the highest there is, and no
// message has it.
const flawField protowire.Number = 1<<29 - 1

// mark makes a message one that cannot be read.
func mark(m proto.Message, why string) {
	m.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, flawField, protowire.BytesType), why))
}

// refuseFlaws refuses messages that could not be read.
func refuseFlaws(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
		if m, ok := r.Any().(proto.Message); ok {
			unknown := m.ProtoReflect().GetUnknown()
			if number, _, n := protowire.ConsumeTag(unknown); n > 0 && number == flawField {
				why, _ := protowire.ConsumeString(unknown[n:])
				return nil, flaw("request", "%s", strings.ToValidUTF8(why, "?"))
			}
		}
		return next(ctx, r)
	}
}

// explain returns why a text is not the JSON of a message, for people. It returns what protojson
// says if it finds nothing better.
func explain(text []byte, d protoreflect.MessageDescriptor, err error) string {
	var fields map[string]json.RawMessage
	if e := json.Unmarshal(text, &fields); e != nil || fields == nil {
		var syntax *json.SyntaxError
		if errors.As(e, &syntax) {
			return fmt.Sprintf("it is not JSON: %v at byte %d", e, syntax.Offset)
		}
		return "it is not a JSON object"
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		f := d.Fields().ByJSONName(name)
		if f == nil {
			f = d.Fields().ByTextName(name)
		}
		switch {
		case f == nil:
			return "there is no field " + names.Quote(name) + suggest(name, d)
		case f.Message() != nil && f.Message().FullName() == "google.protobuf.Duration":
			if why := durationFlaw(string(fields[name])); why != "" {
				return fmt.Sprintf("%s is %.32s: %s", name, fields[name], why)
			}
		}
	}
	_, why, ok := strings.Cut(err.Error(), "): ") // without "proto: (line 1:2)", whose spaces are random
	if !ok {
		why = err.Error()
	}
	return names.Quote(why)
}

// suggest returns the field that was probably meant.
func suggest(name string, d protoreflect.MessageDescriptor) string {
	var all []string
	for i := range d.Fields().Len() {
		all = append(all, d.Fields().Get(i).JSONName())
	}
	if best, ok := typo.Of(name, all, 2); ok {
		return ": did you mean " + strconv.Quote(best) + "?"
	}
	return ": the fields are " + strings.Join(all, ", ")
}

// durationFlaw returns why a JSON value is not a duration, or "" if it is one.
func durationFlaw(value string) string {
	const form = `durations are seconds, such as "90s" or "0.5s"`
	if value == "null" {
		return ""
	}
	if _, err := strconv.ParseFloat(value, 64); err == nil {
		return form + `: write "` + value + `s"`
	}
	text, err := strconv.Unquote(value)
	if err != nil {
		return form
	}
	number, ok := strings.CutSuffix(text, "s")
	if ok && strings.Trim(number, "0123456789.-+") == "" {
		return "" // what is wrong with it, protojson says
	}
	if d, err := time.ParseDuration(text); err == nil {
		return form + `: write "` + strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + `s"`
	}
	return form
}
