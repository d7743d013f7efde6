package store_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// leaseHeldByCaller are the functions that read chains of versions only while a caller is
// reading them, which keeps the lease alive, and those that read of the map only what no snapshot
// can cut.
var leaseHeldByCaller = map[string]bool{"flush": true, "sees": true, "Chunks": true, "Changed": true}

// The garbage collector releases a snapshot whose lease is not used any more, even in the middle
// of a read. Whatever the snapshot alone could see is then cut from the chains under the reader.
// No test can place a collection inside such a read, so this one reads the source.
func TestS08_EveryReadOfChainsKeepsTheLeaseAlive(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	readers := 0
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !takesSnapshot(f) || leaseHeldByCaller[f.Name.Name] || !readsChains(f.Body) {
				continue
			}
			readers++
			if !mentions(f.Body, "KeepAlive") {
				t.Errorf("%s reads chains of versions and does not keep the lease of its snapshot alive", f.Name.Name)
			}
		}
	}
	if readers < 8 {
		t.Errorf("found %d functions that read chains; the test does not recognise them any more", readers)
	}
}

// takesSnapshot reports whether a function has a Snapshot as its receiver or parameter.
func takesSnapshot(f *ast.FuncDecl) bool {
	fields := f.Type.Params.List
	if f.Recv != nil {
		fields = append(fields[:len(fields):len(fields)], f.Recv.List...)
	}
	for _, field := range fields {
		if mentions(field.Type, "Snapshot") {
			return true
		}
	}
	return false
}

// readsChains reports whether a function body asks the objects, their order, the marks of scopes
// or the members of an index value.
func readsChains(body *ast.BlockStmt) bool {
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			switch sel.Sel.Name {
			case "objects", "order", "marks", "Visit":
				of, isField := sel.X.(*ast.SelectorExpr)
				found = found || sel.Sel.Name == "Visit" || isField && of.Sel.Name == "store" || isIdent(sel.X, "s")
			}
		}
		return !found
	})
	return found
}

func isIdent(x ast.Expr, name string) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == name
}

// mentions reports whether an identifier occurs in a node.
func mentions(in ast.Node, name string) bool {
	found := false
	ast.Inspect(in, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.Name == name {
			found = true
		}
		return !found
	})
	return found
}
