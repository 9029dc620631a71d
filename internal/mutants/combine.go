package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// variable is the environment variable that switches a mutant on in a program that has many.
const variable = "MUTANT"

// A combined is the tree with many mutants in it, each switched on by its name in [variable].
// Compiling and linking take much longer than most tests, and happen once for all mutants.
//
// A mutant inside the body of a function becomes a branch of that function:
//
//	{ if mutantOn == "a" { the body with mutant a } else { the body } }
//
// A mutant of an embedded file is applied when the program reads the file. Any other mutant (of a
// constant, of a variable) is not in the tree, and is compiled alone.
type combined struct {
	names   map[string]bool   // the mutants in the tree
	replace map[string]string // the text of each file that differs, by path
}

// combine lays as many of the mutants as possible over the tree.
func combine(all []mutant) (combined, error) {
	c := combined{names: map[string]bool{}, replace: map[string]string{}}
	helpers := map[string]*helper{} // by folder
	files := map[string][]mutant{}
	for _, m := range all {
		files[m.File] = append(files[m.File], m)
	}
	for _, file := range slices.Sorted(maps.Keys(files)) { // the same text each time, for go's cache
		ms := files[file]
		var err error
		if filepath.Ext(file) == ".go" {
			err = c.branch(file, ms, helpers)
		} else {
			err = c.embed(file, ms, helpers)
		}
		if err != nil {
			return c, err
		}
	}
	for dir, h := range helpers {
		c.replace[filepath.Join(dir, "mutants_on.go")] = h.text()
	}
	return c, nil
}

// text returns the current text of a file.
func (c combined) text(file string) (string, error) {
	if text, ok := c.replace[file]; ok {
		return text, nil
	}
	code, err := os.ReadFile(file)
	return string(code), err
}

// branch adds mutants of a Go file.
func (c combined) branch(file string, ms []mutant, helpers map[string]*helper) error {
	if strings.HasSuffix(file, "_test.go") {
		return nil
	}
	code, err := c.text(file)
	if err != nil {
		return err
	}
	bodies, pkg, err := bodiesOf(code)
	if err != nil {
		return err
	}
	for i := len(bodies) - 1; i >= 0; i-- { // from the end: earlier offsets stay valid
		b := bodies[i]
		var branches strings.Builder
		for _, m := range ms {
			if text, ok := b.with(code, m); ok {
				// A compiler's message about this branch names the mutant.
				fmt.Fprintf(&branches, "if mutantOn == %q {\n//line %s:1\n%s\n} else ", m.Name, m.Name, text)
				c.names[m.Name] = true
			}
		}
		if branches.Len() > 0 {
			back := fmt.Sprintf("//line %s:%d\n", filepath.Base(file), b.line)
			code = code[:b.from] + "{ " + branches.String() + "{\n" + back + code[b.from:b.to] + "\n}\n}" + code[b.to:]
			on(helpers, filepath.Dir(file), pkg)
		}
	}
	c.replace[file] = code
	return nil
}

// A body is the body of a function, with its braces.
type body struct{ from, to, line int }

// bodiesOf returns the bodies of the functions that can have branches, in order. A function with a
// label cannot, because a function may declare a label only once.
func bodiesOf(code string) (all []body, pkg string, err error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, "", code, parser.SkipObjectResolution)
	if err != nil {
		return nil, "", err
	}
	for _, d := range tree.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		labels := false
		ast.Inspect(f.Body, func(n ast.Node) bool {
			_, label := n.(*ast.LabeledStmt)
			labels = labels || label
			return true
		})
		if from := set.Position(f.Body.Lbrace); !labels {
			all = append(all, body{from.Offset, set.Position(f.Body.Rbrace).Offset + 1, from.Line})
		}
	}
	return all, tree.Name.Name, nil
}

// with returns the body with a mutant in it, and whether the mutant changes this body and no more.
// If Old also occurs outside the body, the row is wrong, and the mutant is not combined.
func (b body) with(code string, m mutant) (string, bool) {
	text := code[b.from:b.to]
	if strings.Count(text, m.Old) != 1 {
		return "", false
	}
	if whole, err := os.ReadFile(m.File); err != nil || strings.Count(string(whole), m.Old) != 1 {
		return "", false
	}
	text = strings.Replace(text, m.Old, m.New, 1)
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, "", "package p\nfunc f()"+text, parser.SkipObjectResolution)
	if err != nil || len(tree.Decls) != 1 {
		return "", false
	}
	f, ok := tree.Decls[0].(*ast.FuncDecl)
	return text, ok && f.Body != nil
}

// embed adds mutants of a file that a package embeds.
func (c combined) embed(file string, ms []mutant, helpers map[string]*helper) error {
	dir := folderOf(file, hasGo)
	within := strings.TrimPrefix(filepath.ToSlash(file), filepath.ToSlash(dir)+"/")
	sources, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	for _, source := range sources {
		code, err := c.text(source)
		if err != nil {
			return err
		}
		v, ok, err := embedOf(code, within)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		h := on(helpers, dir, v.pkg)
		if !slices.Contains(h.vars, v.embedded) {
			h.vars = append(h.vars, v.embedded)
			c.replace[source] = code[:v.at] + v.name + "Embedded" + code[v.at+len(v.name):]
		}
		for _, m := range ms {
			if _, err := m.apply(); err == nil {
				h.texts = append(h.texts, embedding{within, m})
				c.names[m.Name] = true
			}
		}
		return nil
	}
	return nil
}

// An embedded is a variable that go:embed fills.
type embedded struct {
	name string
	fs   bool // an embed.FS, or else a string
}

type foundEmbed struct {
	embedded
	pkg string
	at  int // the offset of the name in the file
}

// embedOf returns the variable that embeds a file.
func embedOf(code, file string) (foundEmbed, bool, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, "", code, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return foundEmbed{}, false, err
	}
	for _, d := range tree.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Doc == nil || len(g.Specs) != 1 {
			continue
		}
		v, ok := g.Specs[0].(*ast.ValueSpec)
		if !ok || len(v.Names) != 1 || !slices.ContainsFunc(g.Doc.List, func(c *ast.Comment) bool { return embeds(c.Text, file) }) {
			continue
		}
		at := set.Position(v.Names[0].Pos()).Offset
		name := strings.TrimSuffix(v.Names[0].Name, "Embedded") // renamed for the mutants of another file
		_, fs := v.Type.(*ast.SelectorExpr)
		return foundEmbed{embedded{name, fs}, tree.Name.Name, at}, true, nil
	}
	return foundEmbed{}, false, nil
}

// embeds reports whether a comment is a go:embed directive for a file.
func embeds(comment, file string) bool {
	patterns, ok := strings.CutPrefix(comment, "//go:embed ")
	return ok && slices.ContainsFunc(strings.Fields(patterns), func(p string) bool {
		match, err := path.Match(p, file)
		return match && err == nil
	})
}

// A helper is a file that is added to a package with mutants.
type helper struct {
	pkg   string
	vars  []embedded
	texts []embedding
}

// An embedding is a mutant of an embedded file.
type embedding struct {
	file string // relative to the package
	mutant
}

// on returns the helper of a folder.
func on(helpers map[string]*helper, dir, pkg string) *helper {
	if helpers[dir] == nil {
		helpers[dir] = &helper{pkg: pkg}
	}
	return helpers[dir]
}

// text returns the code of the helper.
func (h *helper) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "package %s\n\nimport \"os\"\n", h.pkg)
	if len(h.texts) > 0 {
		b.WriteString("import \"strings\"\n")
	}
	fmt.Fprintf(&b, "\nvar mutantOn = os.Getenv(%q)\n\n", variable)
	for _, v := range h.vars {
		if !v.fs {
			fmt.Fprintf(&b, "var %s = mutantText(\"\", %[1]sEmbedded)\n\n", v.name)
			continue
		}
		fmt.Fprintf(&b, "var %s mutantFS_%[1]s\n\ntype mutantFS_%[1]s struct{}\n\n", v.name)
		fmt.Fprintf(&b, "func (mutantFS_%s) ReadFile(file string) ([]byte, error) {\n\ttext, err := %[1]sEmbedded.ReadFile(file)\n", v.name)
		b.WriteString("\treturn []byte(mutantText(file, string(text))), err\n}\n\n")
	}
	if len(h.texts) > 0 {
		b.WriteString("func mutantText(file, text string) string {\n\tswitch {\n")
		for _, t := range h.texts {
			fmt.Fprintf(&b, "\tcase mutantOn == %q && (file == %q || file == \"\"):\n\t\treturn strings.Replace(text, %q, %q, 1)\n", t.Name, t.file, t.Old, t.New)
		}
		b.WriteString("\t}\n\treturn text\n}\n")
	}
	return b.String()
}

// write writes the files into dir and returns the path of the overlay file.
func (c combined) write(dir string) (string, error) {
	replace := map[string]string{}
	for file, text := range c.replace {
		to := filepath.Join(dir, strings.ReplaceAll(filepath.ToSlash(file), "/", "+"))
		from, err := filepath.Abs(file)
		if err == nil {
			err = os.WriteFile(to, []byte(text), 0o600)
		}
		if err != nil {
			return "", err
		}
		replace[from] = to
	}
	return writeOverlay(filepath.Join(dir, "overlay.json"), replace)
}

// writeOverlay writes the file that go's -overlay reads.
func writeOverlay(file string, replace map[string]string) (string, error) {
	text, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	return file, errors.Join(err, os.WriteFile(file, text, 0o600))
}
