package docs

import (
	"errors"
	"flag"
	"fmt"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var (
	update  = flag.Bool("update", false, "rewrite api/next.txt and testdata/notshown.txt")
	release = flag.String("release", "", `write the API to the file of this release, such as "v0.1", and empty api/next.txt`)
)

// private are the folders whose packages are not part of the API.
var private = []string{"cmd/", "examples/", "hack/"}

// isPrivate reports whether a package is not part of the API.
func isPrivate(path string) bool {
	folder := strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
	return strings.Contains(path, "/internal/") || slices.ContainsFunc(private, func(p string) bool { return strings.HasPrefix(folder+"/", p) })
}

// The newest file api/vX.Y.txt has the exported API of that release, one declaration per line. A
// line that the present API lacks was removed or changed, and must be listed in api/next.txt.
// Additions are not listed.
func TestTheAPIHasWhatTheLastReleaseHad(t *testing.T) {
	now := api(t)
	next := filepath.Join(root, "api", "next.txt")
	if *release != "" {
		write(t, filepath.Join(root, "api", *release+".txt"), now)
		write(t, next, nil)
		return
	}
	files, err := filepath.Glob(filepath.Join(root, "api", "v*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no release in api/: %v", err)
	}
	slices.SortFunc(files, compareVersions)
	last := files[len(files)-1]
	var lost []string
	for _, line := range read(t, last) {
		if _, has := slices.BinarySearch(now, line); !has {
			lost = append(lost, line)
		}
	}
	if *update {
		write(t, next, lost)
		return
	}
	listed := read(t, next)
	for _, line := range lost {
		if !slices.Contains(listed, line) {
			t.Errorf("removed or changed since %s: %s", filepath.Base(last), line)
		}
	}
	for _, line := range listed {
		if !slices.Contains(lost, line) {
			t.Errorf("api/next.txt lists what has not changed since %s: %s", filepath.Base(last), line)
		}
	}
	if t.Failed() {
		t.Log("if that is intended: go test ./internal/docs -run API -update, and a line in CHANGELOG.md")
	}
}

// compareVersions compares the names of two files, such as v0.9.txt and v0.10.txt.
func compareVersions(a, b string) int {
	var v, w [2]int
	_, _ = fmt.Sscanf(filepath.Base(a), "v%d.%d.txt", &v[0], &v[1])
	_, _ = fmt.Sscanf(filepath.Base(b), "v%d.%d.txt", &w[0], &w[1])
	return slices.Compare(v[:], w[:])
}

func read(t *testing.T, file string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
	return lines
}

func write(t *testing.T, file string, lines []string) {
	t.Helper()
	text := strings.Join(lines, "\n")
	if text != "" {
		text += "\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// api returns the exported declarations of the module's packages, sorted.
func api(t *testing.T) (lines []string) {
	t.Helper()
	imp, paths := exported(t, token.NewFileSet(), root, "./...")
	for _, path := range paths {
		if isPrivate(path) {
			continue
		}
		pkg, err := imp.Import(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range pkg.Scope().Names() {
			obj := pkg.Scope().Lookup(name)
			if !obj.Exported() {
				continue
			}
			for _, line := range declarations(obj) {
				lines = append(lines, fmt.Sprintf("%s: %s", strings.TrimPrefix(path, filepath.Dir(module)+"/"), line))
			}
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// declarations returns an identifier with its type. A type has a line for each exported field
// and method; an interface is one line, because a further method breaks its implementations.
func declarations(obj types.Object) (lines []string) {
	text := func(t types.Type) string { return types.TypeString(t, qualifier(obj.Pkg())) }
	switch obj := obj.(type) {
	case *types.Const:
		return []string{fmt.Sprintf("const %s %s", obj.Name(), text(obj.Type()))}
	case *types.Var:
		return []string{fmt.Sprintf("var %s %s", obj.Name(), text(obj.Type()))}
	case *types.Func:
		return []string{fmt.Sprintf("func %s%s", obj.Name(), signature(obj.Signature(), text))}
	}
	name := obj.Name()
	if alias, ok := obj.Type().(*types.Alias); ok {
		return []string{fmt.Sprintf("type %s%s = %s", name, typeParams(alias.TypeParams(), text), text(alias.Rhs()))}
	}
	named, ok := obj.Type().(*types.Named)
	if !ok {
		return []string{fmt.Sprintf("type %s %s", name, text(obj.Type()))}
	}
	head := fmt.Sprintf("type %s%s ", name, typeParams(named.TypeParams(), text))
	switch under := named.Underlying().(type) {
	case *types.Struct:
		lines = append(lines, head+"struct")
		for f := range under.Fields() {
			if f.Exported() {
				lines = append(lines, fmt.Sprintf("field %s.%s %s", name, f.Name(), text(f.Type())))
			}
		}
	default:
		lines = append(lines, head+text(under))
	}
	for m := range named.Methods() {
		if m.Exported() {
			lines = append(lines, fmt.Sprintf("method (%s) %s%s", text(m.Signature().Recv().Type()), m.Name(), signature(m.Signature(), text)))
		}
	}
	return lines
}

// signature returns a function's type without the names of its parameters, which may change.
func signature(sig *types.Signature, text func(types.Type) string) string {
	tuple := func(vars *types.Tuple, variadic bool) string {
		var list []string
		for v := range vars.Variables() {
			list = append(list, text(v.Type()))
		}
		if variadic {
			list[len(list)-1] = "..." + strings.TrimPrefix(list[len(list)-1], "[]")
		}
		return "(" + strings.Join(list, ", ") + ")"
	}
	return typeParams(sig.TypeParams(), text) + tuple(sig.Params(), sig.Variadic()) + " " + tuple(sig.Results(), false)
}

func typeParams(params *types.TypeParamList, text func(types.Type) string) string {
	var list []string
	for p := range params.TypeParams() {
		list = append(list, p.Obj().Name()+" "+text(p.Constraint()))
	}
	if list == nil {
		return ""
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// qualifier writes the packages of this module by folder, and others by path.
func qualifier(in *types.Package) types.Qualifier {
	return func(pkg *types.Package) string {
		if pkg == in {
			return ""
		}
		return strings.TrimPrefix(pkg.Path(), module+"/")
	}
}
