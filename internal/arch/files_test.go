package arch

import (
	"go/ast"
	"path"
	"slices"
	"strings"
)

// maxLines is where a file is too long. About 400 is what to aim for.
const maxLines = 600

// empty are file names that do not describe the contents.
var empty = []string{"util", "utils", "common", "helper", "helpers", "types"}

func names(s *source) {
	seen := map[string]bool{}
	for _, f := range s.files {
		base := strings.TrimSuffix(strings.TrimSuffix(path.Base(f.path), ".go"), "_test")
		if slices.Contains(empty, base) {
			s.report(f, f.Package, Name, "a file %s.go can hold anything; name it after what it holds", base)
		}
		for _, name := range []string{f.Name.Name, path.Base(f.dir)} {
			name = strings.TrimSuffix(name, "_test")
			if slices.Contains(empty, name) && !seen[f.dir] {
				seen[f.dir] = true
				s.report(f, f.Package, Name, "a package %s can hold anything; name it after what it holds", name)
			}
		}
	}
}

func sleeps(s *source) {
	for _, f := range s.files {
		name := timeName(f)
		if !f.test || name == "" {
			continue
		}
		selected := map[*ast.Ident]bool{} // names after a dot
		ast.Inspect(f.File, func(n ast.Node) bool {
			var sleep bool
			switch n := n.(type) {
			case *ast.SelectorExpr:
				selected[n.Sel] = true
				x, ok := n.X.(*ast.Ident)
				sleep = ok && x.Name == name && n.Sel.Name == "Sleep"
			case *ast.Ident:
				sleep = name == "." && n.Name == "Sleep" && !selected[n]
			}
			if sleep {
				s.report(f, n.Pos(), Sleep, "no sleeps in tests; wait for a signal, or use testing/synctest")
			}
			return true
		})
	}
}

// timeName returns what the file calls the time package, "." for a dot import, ""
// when it does not import it.
func timeName(f *file) string {
	for p, spec := range f.imports {
		switch {
		case p != "time":
		case spec.Name != nil:
			return spec.Name.Name
		default:
			return "time"
		}
	}
	return ""
}

func lengths(s *source) {
	for _, f := range s.files {
		if f.lines > maxLines && !ast.IsGenerated(f.File) {
			s.report(f, f.Package, Length, "%d lines; split the file at a noun, %d is the limit and about 400 the aim", f.lines, maxLines)
		}
	}
}
