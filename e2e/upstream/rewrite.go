package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
)

// The names under which the generated files import client-go's package and the adapters.
const (
	theirs = "clientgo_."
	ours   = "tarn_."
)

// generate returns the text of the files, by name, that have the given tests and what they need:
// over the adapters, or as a control over client-go itself.
func (sel *selection) generate(tests []*group, control bool) map[string][]byte {
	emitted := map[*group]bool{}
	var emit func(g *group)
	emit = func(g *group) {
		if !emitted[g] {
			emitted[g] = true
			for n := range g.needs {
				emit(n)
			}
		}
	}
	for _, g := range sel.groups {
		if !g.private && (g.name == "TestMain" || slices.Contains(tests, g)) {
			emit(g)
		}
	}
	files := map[string][]byte{}
	for _, file := range sel.tests {
		var body bytes.Buffer
		imports := map[string]string{} // name to path
		for _, g := range sel.groups {
			for _, p := range g.parts {
				if emitted[g] && p.file == file {
					sel.write(&body, p, imports, control)
				}
			}
		}
		if body.Len() == 0 {
			continue
		}
		var text bytes.Buffer
		text.WriteString("package standin\n\n")
		for name, path := range imports {
			fmt.Fprintf(&text, "import %s %q\n", name, path)
		}
		text.Write(body.Bytes())
		files[filepath.Base(sel.fset.File(file.Pos()).Name())] = text.Bytes()
	}
	return files
}

// edit is a change of a file's text.
type edit struct {
	from, to int
	text     string
}

// write writes a declaration as it is to be compiled, and notes what it imports.
func (sel *selection) write(out *bytes.Buffer, p part, imports map[string]string, control bool) {
	text, start := sel.text[p.file], p.file.FileStart
	var edits []edit
	replace := func(n ast.Node, with string) {
		edits = append(edits, edit{int(n.Pos() - start), int(n.End() - start), with})
		switch {
		case strings.HasPrefix(with, theirs):
			imports[strings.TrimSuffix(theirs, ".")] = sel.path
		case strings.HasPrefix(with, ours):
			imports[strings.TrimSuffix(ours, ".")] = sel.adapter
		}
	}
	ast.Inspect(p.decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case ast.Stmt:
			if sel.dropped[n] {
				lines := sel.fset.Position(n.End()).Line - sel.fset.Position(n.Pos()).Line
				replace(n, strings.Repeat("\n", lines))
				sel.removed++
				return false
			}
		case *ast.StarExpr:
			if id := named(n.X); id != nil && sel.stars[id] != "" {
				replace(n, sel.stars[id])
				return false
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && sel.isTop(n.Sel) {
				if _, ok := sel.info.Uses[x].(*types.PkgName); ok {
					replace(n, sel.instead(n.Sel, control))
					return false
				}
			}
		case *ast.Ident:
			if sel.isTop(n) {
				replace(n, sel.instead(n, control))
			} else if pkg, ok := sel.info.Uses[n].(*types.PkgName); ok {
				imports[pkg.Name()] = pkg.Imported().Path()
			}
		}
		return true
	})
	slices.SortFunc(edits, func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	position := sel.fset.Position(p.decl.Pos())
	fmt.Fprintf(out, "\n//line %s:%d\n", position.Filename, position.Line)
	from := int(p.decl.Pos() - start)
	for _, e := range edits {
		out.Write(text[from:e.from])
		out.WriteString(e.text)
		from = e.to
	}
	out.Write(text[from : p.decl.End()-start])
	out.WriteByte('\n')
}

// instead returns what stands for a name of client-go's package.
func (sel *selection) instead(id *ast.Ident, control bool) string {
	to := sel.redirect[id.Name]
	if to == "" || sel.kept[id] || control && strings.HasPrefix(to, ours) {
		return theirs + id.Name
	}
	return to
}
