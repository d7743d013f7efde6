package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// group is what is declared together in a suite's test files: a function, a block of variables,
// or types with their methods. It is taken over or left out as a whole.
type group struct {
	name  string
	parts []part
	// private: it needs something that client-go does not export, or would check nothing
	// without it.
	private bool
	// redirected: it, or what it needs, uses an adapter.
	redirected bool
	needs      map[*group]bool
}

// isTest reports whether a group is a test function.
func (g *group) isTest() bool {
	fn, ok := g.parts[0].decl.(*ast.FuncDecl)
	return ok && fn.Recv == nil && strings.HasPrefix(g.name, "Test") && g.name != "TestMain"
}

// part is one declaration of a group, and the statements in it that only look; see looksIn.
type part struct {
	file  *ast.File
	decl  ast.Decl
	looks []ast.Stmt
}

// selection says what of a suite runs over the adapters, and how.
type selection struct {
	*suite
	rules
	groups  []*group
	of      map[types.Object]*group // package-level objects of the test files
	owner   map[types.Object]string // fields and methods of the package's types: the type
	stars   map[*ast.Ident]string   // operands of * which, together with it, are replaced
	kept    map[*ast.Ident]bool     // used from client-go's package whatever the rules say
	dropped map[ast.Stmt]bool
	removed int // how many generate dropped, without those inside of others
}

// rules say what tests use in place of what client-go's package has.
type rules struct {
	adapter  string            // import path of the adapters
	redirect map[string]string // by name in client-go's package: what is used instead, as Go text
	members  map[string]bool   // "Type.member": private ones that a stand-in has
	inter    map[string]string // by name of a struct: the interface in place of a pointer to it
}

// chosen applies the rules to a suite.
func (s *suite) chosen(r rules) *selection {
	sel := &selection{
		suite: s, rules: r, of: map[types.Object]*group{}, owner: map[types.Object]string{},
		stars: map[*ast.Ident]string{}, kept: map[*ast.Ident]bool{}, dropped: map[ast.Stmt]bool{},
	}
	for _, name := range s.under.Scope().Names() {
		obj := s.under.Scope().Lookup(name)
		for _, member := range membersOf(obj) {
			if !sel.inTests(obj.Pos()) {
				sel.owner[member] = name
			}
		}
	}
	byName := map[string]*group{}
	for _, file := range s.tests {
		for _, decl := range file.Decls {
			sel.declare(file, decl, byName)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.StarExpr:
				if id := named(n.X); id != nil && sel.outside(id) != nil && sel.inter[id.Name] != "" {
					sel.stars[id] = sel.inter[id.Name]
				}
			case *ast.FuncLit: // a watch error handler gets client-go's reflector
				for _, field := range n.Type.Params.List {
					if id := named(field.Type); id != nil && id.Name == "Reflector" {
						sel.kept[id] = true
					}
				}
			}
			return true
		})
	}
	for again := true; again; { // until no more is found to be private
		again = false
		for _, g := range sel.groups {
			if !g.private && sel.study(g) {
				g.private, again = true, true
			}
		}
	}
	for again := true; again; {
		again = false
		for _, g := range sel.groups {
			for n := range g.needs {
				if n.redirected && !g.redirected {
					g.redirected, again = true, true
				}
			}
		}
	}
	return sel
}

// declare puts a declaration into its group.
func (sel *selection) declare(file *ast.File, decl ast.Decl, byName map[string]*group) {
	p := part{file: file, decl: decl}
	var names []*ast.Ident
	switch d := decl.(type) {
	case *ast.FuncDecl:
		p.looks = looksIn(d)
		names = []*ast.Ident{d.Name}
		if d.Recv != nil {
			names = []*ast.Ident{named(d.Recv.List[0].Type)}
			if !sel.inTests(sel.info.Uses[names[0]].Pos()) {
				return // a method that the tests add to a type of the package
			}
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				names = append(names, spec.Name)
			case *ast.ValueSpec:
				names = append(names, spec.Names...)
			}
		}
	}
	if len(names) == 0 {
		return // imports
	}
	name := names[0].Name
	if name == "init" || name == "_" {
		name = sel.fset.Position(decl.Pos()).String()
	}
	g := byName[name]
	if g == nil {
		g = &group{name: name}
		sel.groups = append(sel.groups, g)
	}
	g.parts = append(g.parts, p)
	for _, id := range names {
		byName[id.Name] = g
		if obj := sel.info.Defs[id]; obj != nil {
			sel.of[obj] = g
		}
	}
}

func (sel *selection) inTests(pos token.Pos) bool {
	return slices.ContainsFunc(sel.tests, func(f *ast.File) bool { return f.FileStart <= pos && pos < f.FileEnd })
}

// outside returns what an identifier refers to if the package under test declares it, outside of
// its tests.
func (sel *selection) outside(id *ast.Ident) types.Object {
	obj := sel.info.Uses[id]
	if obj == nil || obj.Pkg() != sel.under || sel.inTests(obj.Pos()) {
		return nil
	}
	return obj
}

// isTop reports whether an identifier refers to something that the package under test declares
// at its top level.
func (sel *selection) isTop(id *ast.Ident) bool {
	obj := sel.outside(id)
	return obj != nil && obj.Parent() == sel.under.Scope()
}

// isPrivate reports whether an identifier refers to something that cannot be had.
func (sel *selection) isPrivate(id *ast.Ident) bool {
	obj := sel.info.Uses[id]
	if obj == nil || sel.stars[id] != "" {
		return false
	}
	if g := sel.of[obj]; g != nil {
		return g.private
	}
	if v, ok := obj.(*types.Var); ok {
		obj = v.Origin()
	} else if f, ok := obj.(*types.Func); ok {
		obj = f.Origin()
	}
	if owner := sel.owner[obj]; owner != "" {
		added := sel.inTests(obj.Pos()) // by the tests
		return (added || !obj.Exported()) && !sel.members[owner+"."+obj.Name()]
	}
	return sel.outside(id) != nil && !obj.Exported() && (!sel.isTop(id) || sel.redirect[id.Name] == "")
}

// study finds out what a group needs, drops what only looks at something private, and reports
// whether the group is private all the same.
func (sel *selection) study(g *group) (private bool) {
	g.needs, g.redirected = map[*group]bool{}, false
	for _, p := range g.parts {
		if sel.drop(p) && !sel.checks(p.decl) {
			private = true
		}
		sel.each(p.decl, func(id *ast.Ident) {
			private = private || sel.isPrivate(id)
			if n := sel.of[sel.info.Uses[id]]; n != nil {
				g.needs[n] = true
			}
			if sel.isTop(id) && sel.redirect[id.Name] != "" && !scenery[id.Name] {
				g.redirected = true
			}
		})
	}
	return private
}

// drop drops the statements of a part that only look at something private, and reports whether
// there are any.
func (sel *selection) drop(p part) (some bool) {
	for _, look := range p.looks {
		if !sel.dropped[look] && anyIdent(look, sel.isPrivate) {
			if a, ok := look.(*ast.AssignStmt); ok && !sel.dropUses(p, a) {
				continue
			}
			sel.dropped[look] = true
		}
		some = some || sel.dropped[look]
	}
	return some
}

// dropUses drops the statements that look at the variables of an assignment, and in turn those
// that look at theirs. It does nothing if a statement does more with one of them.
func (sel *selection) dropUses(p part, a *ast.AssignStmt) bool {
	variables, uses := map[types.Object]bool{}, []ast.Stmt{a}
	isOne := func(id *ast.Ident) bool { return variables[sel.info.ObjectOf(id)] }
	for i := 0; i < len(uses); i++ {
		a, ok := uses[i].(*ast.AssignStmt)
		if !ok {
			continue
		}
		for _, x := range a.Lhs {
			id, ok := x.(*ast.Ident)
			if !ok {
				return false
			}
			variables[sel.info.ObjectOf(id)] = id.Name != "_"
		}
		for _, look := range p.looks {
			if !slices.Contains(uses, look) && anyIdent(look, isOne) {
				uses = append(uses, look)
			}
		}
	}
	more := false
	ast.Inspect(p.decl, func(n ast.Node) bool {
		if stmt, ok := n.(ast.Stmt); ok && slices.Contains(uses, stmt) {
			return false
		}
		id, ok := n.(*ast.Ident)
		more = more || ok && isOne(id)
		return true
	})
	if !more {
		for _, stmt := range uses {
			sel.dropped[stmt] = true
		}
	}
	return !more
}

// checks reports whether a declaration still checks something.
func (sel *selection) checks(decl ast.Decl) (some bool) {
	ast.Inspect(decl, func(n ast.Node) bool {
		stmt, ok := n.(ast.Stmt)
		if !ok {
			return true
		}
		if sel.dropped[stmt] {
			return false
		}
		x, ok := stmt.(*ast.ExprStmt)
		some = some || ok && complains(x) && !strings.HasPrefix(callee(x), "Log")
		return true
	})
	return some
}

// each calls f for every identifier that is not in a dropped statement.
func (sel *selection) each(n ast.Node, f func(*ast.Ident)) {
	ast.Inspect(n, func(n ast.Node) bool {
		if stmt, ok := n.(ast.Stmt); ok && sel.dropped[stmt] {
			return false
		}
		if id, ok := n.(*ast.Ident); ok {
			f(id)
		}
		return true
	})
}
