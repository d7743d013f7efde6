package main

import (
	"go/ast"
	"slices"
	"strings"
)

// looksIn returns the statements of a function that only look at something: that log it, fail the
// test because of it, or put it into a variable. Those that look at something private can be
// dropped, and the rest of the test still runs.
func looksIn(fn *ast.FuncDecl) (looks []ast.Stmt) {
	ast.Inspect(fn, func(n ast.Node) bool {
		switch s := n.(type) {
		case *ast.IfStmt, *ast.ExprStmt:
			if complains(s.(ast.Stmt)) {
				looks = append(looks, s.(ast.Stmt))
			}
		case *ast.AssignStmt:
			if !slices.ContainsFunc(s.Lhs, isErrorCheck) {
				looks = append(looks, s)
			}
		}
		return true
	})
	return looks
}

// complains reports whether all that a statement can do is to fail the test, to log, to end what
// the test has started, or to leave the function or loop.
func complains(stmt ast.Stmt) bool {
	switch s := stmt.(type) {
	case nil:
		return true
	case *ast.ReturnStmt:
		return len(s.Results) == 0
	case *ast.BranchStmt:
		return true
	case *ast.BlockStmt:
		return !slices.ContainsFunc(s.List, func(s ast.Stmt) bool { return !complains(s) })
	case *ast.IfStmt:
		return !isErrorCheck(s.Cond) && complains(s.Body) && complains(s.Else)
	case *ast.ExprStmt:
		return callee(s) != ""
	}
	return false
}

// callee returns the name of the function that a statement complains with; "" for none.
func callee(s *ast.ExprStmt) string {
	call, ok := s.X.(*ast.CallExpr)
	if !ok {
		return ""
	}
	if id, ok := call.Fun.(*ast.Ident); ok && id.Name == "close" {
		return "Log"
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	name := sel.Sel.Name
	switch on, _ := sel.X.(*ast.Ident); {
	case on == nil:
	case (on.Name == "assert" || on.Name == "require") && name != "NoError",
		on.Name == "t" && (strings.HasPrefix(name, "Error") || strings.HasPrefix(name, "Fatal") || strings.HasPrefix(name, "Log")):
		return name
	}
	return ""
}

// isErrorCheck reports whether an expression is about an error: what was called did something
// then, rather than look.
func isErrorCheck(x ast.Expr) bool {
	return anyIdent(x, func(id *ast.Ident) bool { return id.Name == "err" })
}

func anyIdent(n ast.Node, is func(*ast.Ident) bool) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && is(id)
		return !found
	})
	return found
}

// named returns the name of a type, without its package, pointers and type arguments.
func named(expr ast.Expr) *ast.Ident {
	switch x := expr.(type) {
	case *ast.Ident:
		return x
	case *ast.SelectorExpr:
		return x.Sel
	case *ast.StarExpr:
		return named(x.X)
	case *ast.IndexExpr:
		return named(x.X)
	}
	return nil
}
