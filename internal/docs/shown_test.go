package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every exported identifier of the public packages is used in an Example function, in examples/,
// or in a block of Go code of the documentation. What counts as a use:
//
//   - A type is used where it is named, and where an expression has it.
//   - One constant of a type stands for all of them.
//   - A method that implements an exported interface is used through the interface.
//   - Fields are not checked: the comment of their struct explains them.
//
// testdata/notshown.txt lists those that are not used yet. It must only get shorter: -update removes
// lines and adds none.
func TestEveryExportedIdentifierIsShown(t *testing.T) {
	shown := shownNames(t)
	imp, paths := exported(t, token.NewFileSet(), root, "./...")
	var missing []string
	for _, path := range paths {
		if isPrivate(path) {
			continue
		}
		pkg, err := imp.Import(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range notShown(pkg, shown) {
			missing = append(missing, strings.TrimPrefix(name, filepath.Dir(module)+"/"))
		}
	}
	const file = "testdata/notshown.txt"
	listed := read(t, file)
	if *update {
		write(t, file, slices.DeleteFunc(listed, func(name string) bool { return !slices.Contains(missing, name) }))
		return
	}
	for _, name := range missing {
		if !slices.Contains(listed, name) {
			t.Errorf("%s: no example uses it", name)
		}
	}
	for _, name := range listed {
		if !slices.Contains(missing, name) {
			t.Errorf("%s: remove it from %s, or run go test ./internal/docs -run Shown -update", name, file)
		}
	}
	t.Logf("%d identifiers are not shown", len(missing))
}

// notShown returns the exported identifiers of a package that are not among the shown ones.
func notShown(pkg *types.Package, shown map[string]bool) (missing []string) {
	interfaces := interfacesOf(pkg)
	scope := pkg.Scope()
	for _, name := range scope.Names() {
		obj := scope.Lookup(name)
		if !obj.Exported() {
			continue
		}
		if !shown[nameOf(obj)] && !shown[nameOfEnum(obj)] {
			missing = append(missing, nameOf(obj))
		}
		named, ok := obj.Type().(*types.Named)
		if _, isType := obj.(*types.TypeName); !ok || !isType || types.IsInterface(named) {
			continue
		}
		for m := range named.Methods() {
			if m.Exported() && !shown[nameOf(m)] && !implements(named, m, interfaces) {
				missing = append(missing, nameOf(m))
			}
		}
	}
	return missing
}

// nameOf returns the path of an object's package and its name, a method's with that of its type.
func nameOf(obj types.Object) string {
	name := obj.Name()
	if f, ok := obj.(*types.Func); ok {
		if recv := f.Signature().Recv(); recv != nil {
			if named := namedOf(recv.Type()); named != nil {
				name = named.Obj().Name() + "." + name
			}
		}
	}
	if obj.Pkg() == nil {
		return name
	}
	return obj.Pkg().Path() + "." + name
}

// nameOfEnum returns the name under which a constant of the same type is shown.
func nameOfEnum(obj types.Object) string {
	if c, ok := obj.(*types.Const); ok {
		if named, ok := c.Type().(*types.Named); ok {
			return nameOf(named.Obj()) + " constant"
		}
	}
	return ""
}

// namedOf returns the named type that a type is, or points to.
func namedOf(t types.Type) *types.Named {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	named, _ := types.Unalias(t).(*types.Named)
	return named
}

// interfacesOf returns the exported interfaces of a package and of those that it imports.
func interfacesOf(pkg *types.Package) (found []*types.Interface) {
	found = append(found, types.Universe.Lookup("error").Type().Underlying().(*types.Interface))
	for _, p := range append(pkg.Imports(), pkg) {
		for _, name := range p.Scope().Names() {
			obj, ok := p.Scope().Lookup(name).(*types.TypeName)
			if !ok || !obj.Exported() {
				continue
			}
			if i, ok := obj.Type().Underlying().(*types.Interface); ok {
				found = append(found, i)
			}
		}
	}
	return found
}

// implements reports whether a method is one of an interface whose other methods the type has
// too. It compares names, because the types may be parameters.
func implements(named *types.Named, m *types.Func, interfaces []*types.Interface) bool {
	if slices.Contains([]string{"String", "Unwrap", "Is", "As", "LogValue", "MarshalText", "MarshalJSON"}, m.Name()) {
		return true
	}
	methods := types.NewMethodSet(types.NewPointer(named))
	return slices.ContainsFunc(interfaces, func(i *types.Interface) bool {
		has := false
		for want := range i.Methods() {
			if methods.Lookup(want.Pkg(), want.Name()) == nil {
				return false
			}
			has = has || want.Name() == m.Name()
		}
		return has
	})
}

// shownNames returns the names that examples and blocks of code use.
func shownNames(t *testing.T) map[string]bool {
	t.Helper()
	fset := token.NewFileSet()
	in := map[string][][]*ast.File{} // packages, by the module in which they are compiled
	for page, text := range pages(t) {
		for _, u := range unitsOf(page, text) {
			if files, err := u.parse(fset); err == nil {
				in["e2e"] = append(in["e2e"], files)
			}
		}
	}
	for folder, files := range exampleFiles(t, fset) {
		dir := "."
		for _, own := range []string{"examples/controller-runtime", "controllerruntime"} {
			if strings.HasPrefix(folder, own) {
				dir = own
			}
		}
		in[dir] = append(in[dir], files)
	}
	shown := map[string]bool{}
	for dir, packages := range in {
		var paths []string
		for _, files := range packages {
			paths = append(paths, importsOf(files)...)
		}
		slices.Sort(paths)
		imp, _ := exported(t, fset, filepath.Join(root, dir), slices.Compact(paths)...)
		for _, files := range packages {
			addNames(shown, fset, imp, files)
		}
	}
	return shown
}

// addNames adds the names that the files of a package use, except in tests without examples.
func addNames(shown map[string]bool, fset *token.FileSet, imp types.Importer, files []*ast.File) {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}}
	conf := types.Config{Importer: imp, Error: func(error) {}} // in blocks, of which another test reports errors
	_, _ = conf.Check("shown", fset, files, info)
	silent := map[*token.File]bool{}
	for _, f := range files {
		name := fset.Position(f.Package).Filename
		silent[fset.File(f.Package)] = strings.HasSuffix(name, "_test.go") && !strings.Contains(name, "/examples/") && !hasExample(f)
	}
	for ident, obj := range info.Uses {
		if silent[fset.File(ident.Pos())] {
			continue
		}
		if f, ok := obj.(*types.Func); ok {
			obj = f.Origin()
		}
		shown[nameOf(obj)], shown[nameOfEnum(obj)] = true, true
	}
	delete(shown, "")
	for expr, value := range info.Types {
		if silent[fset.File(expr.Pos())] {
			continue
		}
		if named := namedOf(value.Type); named != nil {
			shown[nameOf(named.Obj())] = true
		}
	}
}

// exampleFiles returns the tests of public packages and the files of examples/, by folder and
// package.
func exampleFiles(t *testing.T, fset *token.FileSet) map[string][]*ast.File {
	t.Helper()
	packages := map[string][]*ast.File{}
	err := fs.WalkDir(os.DirFS(root), ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bench", "e2e", "cmd", "internal", "testdata"}, d.Name()):
			return fs.SkipDir
		case path.Ext(p) != ".go" || !strings.HasPrefix(p, "examples/") && !strings.HasSuffix(p, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(fset, filepath.Join(root, p), nil, parser.SkipObjectResolution)
		if err == nil {
			name := path.Join(path.Dir(p), file.Name.Name)
			packages[name] = append(packages[name], file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

func hasExample(file *ast.File) bool {
	return slices.ContainsFunc(file.Decls, func(d ast.Decl) bool {
		f, ok := d.(*ast.FuncDecl)
		return ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Example")
	})
}
