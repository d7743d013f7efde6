package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// suite is the test files of one of client-go's packages, type-checked: either those in the
// package itself, or those of its external test package.
type suite struct {
	path  string // import path of the package under test
	under *types.Package
	fset  *token.FileSet
	tests []*ast.File
	text  map[*ast.File][]byte
	info  types.Info
}

// listed is what "go list" prints of a package.
type listed struct {
	ImportPath, Dir, Export, ForTest   string
	GoFiles, TestGoFiles, XTestGoFiles []string
}

// world imports packages from what the compiler wrote.
type world map[string]*listed

// Import implements types.Importer.
func (w world) Import(path string) (*types.Package, error) {
	return w.importer(token.NewFileSet()).Import(path)
}

func (w world) importer(fset *token.FileSet) types.Importer {
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if w[path] == nil {
			return nil, fmt.Errorf("%s was not listed", path)
		}
		return os.Open(w[path].Export)
	})
}

// load type-checks the tests of the packages in adapters.
func load(ctx context.Context) (suites []*suite, w world, err error) {
	packages := slices.Sorted(maps.Keys(adapters))
	args := []string{"list", "-test", "-deps", "-export", "-json=ImportPath,Dir,Export,ForTest,GoFiles,TestGoFiles,XTestGoFiles", standins}
	for _, path := range packages {
		args = append(args, path, adapters[path])
	}
	out, err := command(ctx, "go", args...)
	if err != nil {
		return nil, nil, err
	}
	w = world{}
	for in := json.NewDecoder(bytes.NewReader(out)); ; {
		p := &listed{}
		if err := in.Decode(p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, nil, err
		}
		if p.ForTest == "" {
			w[p.ImportPath] = p
		}
	}
	for _, path := range packages {
		p := w[path]
		for _, files := range [][2][]string{{p.GoFiles, p.TestGoFiles}, {nil, p.XTestGoFiles}} {
			if len(files[1]) == 0 {
				continue
			}
			s, err := w.check(p, files[0], files[1])
			if err != nil {
				return nil, nil, err
			}
			suites = append(suites, s)
		}
	}
	return suites, w, nil
}

// check parses and type-checks the tests of a package. sources are the package's own files,
// none for an external test package.
func (w world) check(p *listed, sources, tests []string) (*suite, error) {
	s := &suite{
		path: p.ImportPath, fset: token.NewFileSet(), text: map[*ast.File][]byte{},
		info: types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}},
	}
	files := []*ast.File{}
	for i, name := range append(sources[:len(sources):len(sources)], tests...) {
		name = filepath.Join(p.Dir, name)
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(s.fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
		if i >= len(sources) {
			s.tests = append(s.tests, file)
			s.text[file] = text
		}
	}
	imports := w.importer(s.fset)
	config := types.Config{Importer: imports}
	pkg, err := config.Check(p.ImportPath, s.fset, files, &s.info)
	if err == nil && len(sources) == 0 {
		pkg, err = imports.Import(p.ImportPath)
	}
	s.under = pkg
	return s, err
}

// membersOf returns the fields and methods of a type; nothing for what is not one.
func membersOf(obj types.Object) (members []types.Object) {
	if _, isType := obj.(*types.TypeName); !isType {
		return nil
	}
	t, ok := obj.Type().(*types.Named)
	if !ok {
		return nil
	}
	for m := range t.Methods() {
		members = append(members, m)
	}
	if s, ok := t.Underlying().(*types.Struct); ok {
		for f := range s.Fields() {
			members = append(members, f)
		}
	}
	return members
}

// command runs a command and returns what it printed. The error has what it complained about.
func command(ctx context.Context, name string, args ...string) ([]byte, error) {
	return commandIn(ctx, "", name, args...)
}

// commandIn is command in another working directory.
func commandIn(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", name, args[0], err, complaint.Bytes())
	}
	return out, err
}
