// Package apicheck describes the public API of a package as text, one line for each exported name.
// A change of the API shows as a change of a file and cannot happen by accident. The package reads
// only the syntax: no package has to compile, and none is linked.
package apicheck

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/printer"
	"go/token"
	"slices"
	"strings"
)

// Describe returns the lines of the exported API of one package's files, sorted.
func Describe(fset *token.FileSet, files []*ast.File) []string {
	w := &writer{fset: fset}
	for _, f := range files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				w.function(d)
			case *ast.GenDecl:
				w.group(d)
			}
		}
	}
	slices.Sort(w.lines)
	return slices.Compact(w.lines)
}

type writer struct {
	fset  *token.FileSet
	lines []string
}

func (w *writer) add(format string, args ...any) {
	w.lines = append(w.lines, fmt.Sprintf(format, args...))
}

// text prints a node on one line.
func (w *writer) text(n any) string {
	var b bytes.Buffer
	if err := printer.Fprint(&b, w.fset, n); err != nil {
		return "?" + err.Error() // not a node of a parsed file
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func (w *writer) function(d *ast.FuncDecl) {
	sign := strings.TrimPrefix(w.text(d.Type), "func")
	switch {
	case !d.Name.IsExported():
	case d.Recv == nil:
		w.add("func %s%s", d.Name.Name, sign)
	case ast.IsExported(receiver(d.Recv.List[0].Type)):
		w.add("method (%s) %s%s", w.text(d.Recv.List[0].Type), d.Name.Name, sign)
	}
}

// receiver returns the name of a receiver's type, without pointer and parameters.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func (w *writer) group(d *ast.GenDecl) {
	var last *ast.ValueSpec // in a const group: the spec whose type and value are repeated
	for i, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() {
				w.typ(s)
			}
		case *ast.ValueSpec:
			if s.Type != nil || s.Values != nil {
				last = s
			}
			w.values(d.Tok, s, last, i)
		}
	}
}

// values adds constants with their value, which is part of the API, and variables with their type
// only, if the source names it.
func (w *writer) values(tok token.Token, s, from *ast.ValueSpec, iota int) {
	for i, n := range s.Names {
		if !n.IsExported() {
			continue
		}
		entry := tok.String() + " " + n.Name
		if from.Type != nil {
			entry += " " + w.text(from.Type)
		}
		if tok == token.CONST && i < len(from.Values) {
			entry += " = " + w.text(from.Values[i])
			if usesIota(from.Values[i]) {
				entry += fmt.Sprintf(" (iota %d)", iota)
			}
		}
		w.add("%s", entry)
	}
}

func usesIota(e ast.Expr) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.Name == "iota" {
			found = true
		}
		return !found
	})
	return found
}

func (w *writer) typ(s *ast.TypeSpec) {
	name := s.Name.Name
	if s.TypeParams != nil {
		name += "[" + w.fields(s.TypeParams) + "]"
	}
	switch t := s.Type.(type) {
	case *ast.StructType:
		w.add("type %s struct", name)
		for _, f := range t.Fields.List {
			w.field("type "+name+" struct, ", f)
		}
	case *ast.InterfaceType:
		w.add("type %s interface", name)
		for _, m := range t.Methods.List {
			w.method("type "+name+" interface, ", m)
		}
	default:
		eq := ""
		if s.Assign.IsValid() {
			eq = "= "
		}
		w.add("type %s %s%s", name, eq, w.text(s.Type))
	}
}

func (w *writer) fields(l *ast.FieldList) string {
	var parts []string
	for _, f := range l.List {
		var names []string
		for _, n := range f.Names {
			names = append(names, n.Name)
		}
		parts = append(parts, strings.Join(names, ", ")+" "+w.text(f.Type))
	}
	return strings.Join(parts, ", ")
}

func (w *writer) field(prefix string, f *ast.Field) {
	tag := ""
	if f.Tag != nil {
		tag = " " + f.Tag.Value // the tag decides the encoding of a value
	}
	if f.Names == nil {
		w.add("%sembedded %s%s", prefix, w.text(f.Type), tag)
	}
	for _, n := range f.Names {
		if n.IsExported() {
			w.add("%s%s %s%s", prefix, n.Name, w.text(f.Type), tag)
		}
	}
}

func (w *writer) method(prefix string, m *ast.Field) {
	if m.Names == nil {
		w.add("%sembedded %s", prefix, w.text(m.Type))
	}
	for _, n := range m.Names {
		if !n.IsExported() {
			w.add("%sunexported methods", prefix) // other packages cannot implement it
			continue
		}
		w.add("%s%s%s", prefix, n.Name, strings.TrimPrefix(w.text(m.Type), "func"))
	}
}
