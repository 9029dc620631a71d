package distlockv1_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

var update = flag.Bool("update", false, "write the generated code and the descriptor")

// sources are relative to the folder api.
var sources = []string{"distlock/v1/store.proto", "distlock/v1/locks.proto"}

// descriptor has the sources and their imports.
const descriptor = "distlock.binpb"

// plugins generate the code, with their parameters. go.mod has their versions.
var plugins = map[string]string{
	"google.golang.org/protobuf/cmd/protoc-gen-go":     "paths=source_relative",
	"connectrpc.com/connect/cmd/protoc-gen-connect-go": "paths=source_relative,simple,package_suffix",
}

// compiled returns the descriptors of the sources, with their comments, after those of their
// imports.
func compiled(t *testing.T) *descriptorpb.FileDescriptorSet {
	t.Helper()
	c := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(
			&protocompile.SourceResolver{ImportPaths: []string{filepath.Join("..", "..")}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := c.Compile(t.Context(), sources...)
	if err != nil {
		t.Fatal(err)
	}
	set, seen := &descriptorpb.FileDescriptorSet{}, map[string]bool{}
	var add func(f protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		set.File = append(set.File, protoutil.ProtoFromFileDescriptor(f))
	}
	for _, f := range files {
		add(f)
	}
	return set
}

// The committed code is what the plugins generate from the source.
func TestGenerated(t *testing.T) {
	set, bin := compiled(t), t.TempDir()
	for plugin, parameter := range plugins {
		program := filepath.Join(bin, path.Base(plugin))
		if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, plugin).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", plugin, err, out)
		}
		for _, f := range generate(t, program, parameter, set) {
			compare(t, path.Base(f.GetName()), []byte(f.GetContent()))
		}
	}
	for _, f := range set.GetFile() {
		f.SourceCodeInfo = nil
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	if *update && t.Run("compatible", func(t *testing.T) { TestCompatible(t) }) == false {
		t.Fatal("the descriptor is not written")
	}
	compare(t, descriptor, b)
}

func generate(t *testing.T, program, parameter string, set *descriptorpb.FileDescriptorSet) []*pluginpb.CodeGeneratorResponse_File {
	t.Helper()
	request, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: sources, Parameter: &parameter, ProtoFile: set.GetFile(),
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(request), os.Stderr
	out, err := cmd.Output()
	var response pluginpb.CodeGeneratorResponse
	if err == nil {
		err = proto.Unmarshal(out, &response)
	}
	if err != nil || response.Error != nil {
		t.Fatal(err, response.GetError())
	}
	return response.GetFile()
}

// compare compares a file with what it should be, or writes it.
func compare(t *testing.T, name string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(name)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what the .proto files make (%v): run go test ./api/... -args -update", name, err)
	}
}

// No client of an earlier version is broken: nothing in the committed descriptor was removed or
// changed.
func TestCompatible(t *testing.T) {
	old, err := os.ReadFile(descriptor)
	if os.IsNotExist(err) && *update {
		return // the first version
	}
	var set descriptorpb.FileDescriptorSet
	if err == nil {
		err = proto.Unmarshal(old, &set)
	}
	if err != nil || len(set.GetFile()) == 0 {
		t.Fatal(err, len(set.GetFile()))
	}
	for _, what := range breaks(&set, compiled(t)) {
		t.Error(what)
	}
}

func TestCompatible_canFail(t *testing.T) {
	for _, change := range []struct {
		make   func(f *descriptorpb.FileDescriptorProto)
		want   string
		source int
	}{
		{func(f *descriptorpb.FileDescriptorProto) {}, "", 0},
		{func(f *descriptorpb.FileDescriptorProto) {
			f.MessageType = append(f.MessageType, &descriptorpb.DescriptorProto{Name: proto.String("More")})
		}, "", 0},
		{func(f *descriptorpb.FileDescriptorProto) { f.Package = proto.String("distlock.v2") }, "distlock.v1", 0},
		{func(f *descriptorpb.FileDescriptorProto) { f.MessageType = f.MessageType[1:] }, "Reason", 0},
		{func(f *descriptorpb.FileDescriptorProto) { field(f, "ID", "owner").Number = proto.Int32(7) }, "ID.owner", 0},
		{func(f *descriptorpb.FileDescriptorProto) { field(f, "ID", "owner").Name = proto.String("secret") }, "ID.owner", 0},
		{func(f *descriptorpb.FileDescriptorProto) {
			field(f, "ID", "owner").Type = descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum()
		}, "ID.owner", 0},
		{func(f *descriptorpb.FileDescriptorProto) {
			field(f, "ShowResponse", "claims").Label = descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()
		}, "ShowResponse.claims", 0},
		{func(f *descriptorpb.FileDescriptorProto) {
			f.MessageType[0].EnumType[0].Value = f.MessageType[0].EnumType[0].Value[:2]
		}, "Reason.Kind.KIND_UNSUPPORTED", 0},
		{func(f *descriptorpb.FileDescriptorProto) { f.Service[0].Method = f.Service[0].Method[1:] }, "Store.Features", 0},
		{func(f *descriptorpb.FileDescriptorProto) { f.Service[0].Method[1].ServerStreaming = proto.Bool(true) }, "Store.Acquire", 0},
		{func(f *descriptorpb.FileDescriptorProto) { f.Service[0].Method = f.Service[0].Method[1:] }, "Locks.Acquire", 1},
		{func(f *descriptorpb.FileDescriptorProto) {
			field(f, "LocksAcquireRequest", "ttl").Number = proto.Int32(99)
		}, "LocksAcquireRequest.ttl", 1},
		{func(f *descriptorpb.FileDescriptorProto) {
			f.MessageType[0].NestedType[0].Field[0].Type = descriptorpb.FieldDescriptorProto_TYPE_BYTES.Enum()
		}, "LocksAcquireRequest.LabelsEntry.key", 1},
	} {
		changed := compiled(t)
		at := slices.IndexFunc(changed.GetFile(), func(f *descriptorpb.FileDescriptorProto) bool { return f.GetName() == sources[change.source] })
		change.make(changed.GetFile()[at])
		got := strings.Join(breaks(compiled(t), changed), "; ")
		if (got == "") != (change.want == "") || !strings.Contains(got, change.want) {
			t.Errorf("breaks: %q, want %q", got, change.want)
		}
	}
}

func field(f *descriptorpb.FileDescriptorProto, message, name string) *descriptorpb.FieldDescriptorProto {
	for _, m := range f.GetMessageType() {
		for _, field := range m.GetField() {
			if m.GetName() == message && field.GetName() == name {
				return field
			}
		}
	}
	panic("no field " + message + "." + name)
}

// breaks returns the names of the old files that the new ones lack, or have changed. A name stands
// with everything that a client depends on: its number, type and label.
func breaks(old, changed *descriptorpb.FileDescriptorSet) (wrong []string) {
	now := names(changed)
	for name, meaning := range names(old) {
		if now[name] != meaning {
			wrong = append(wrong, fmt.Sprintf("%s was %s and is %q: clients depend on it", name, meaning, now[name]))
		}
	}
	return wrong
}

func names(set *descriptorpb.FileDescriptorSet) map[string]string {
	all := map[string]string{}
	for _, f := range set.GetFile() {
		root := f.GetPackage() + "."
		for _, e := range f.GetEnumType() {
			enumNames(all, root, e)
		}
		for _, m := range f.GetMessageType() {
			messageNames(all, root, m)
		}
		for _, s := range f.GetService() {
			for _, m := range s.GetMethod() {
				all[root+s.GetName()+"."+m.GetName()] = fmt.Sprint("a call ", m.GetInputType(), m.GetClientStreaming(), " ",
					m.GetOutputType(), m.GetServerStreaming())
			}
		}
	}
	return all
}

func messageNames(all map[string]string, prefix string, m *descriptorpb.DescriptorProto) {
	at := prefix + m.GetName()
	all[at] = "a message"
	for _, e := range m.GetEnumType() {
		enumNames(all, at+".", e)
	}
	for _, nested := range m.GetNestedType() {
		messageNames(all, at+".", nested)
	}
	for _, d := range m.GetField() {
		all[at+"."+d.GetName()] = fmt.Sprint("field ", d.GetNumber(), " ", d.GetType(), d.GetTypeName(), " ",
			d.GetLabel(), " ", d.GetProto3Optional(), " ", d.GetJsonName())
	}
}

func enumNames(all map[string]string, prefix string, e *descriptorpb.EnumDescriptorProto) {
	for _, v := range e.GetValue() {
		all[prefix+e.GetName()+"."+v.GetName()] = fmt.Sprint("value ", v.GetNumber())
	}
}
