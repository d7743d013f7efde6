package arch

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Rule names one of the rules that [Check] knows.
type Rule string

// The rules.
const (
	// Layers: an import of ours that the table of folders does not allow.
	Layers Rule = "layers"
	// ThirdParty: an import that the packages at the bottom must do without.
	ThirdParty Rule = "third-party"
	// ClientGo: an import of the client-go packages that Tarn stands in for, or of cli-runtime.
	ClientGo Rule = "client-go"
	// Picture: the pipeline in the root package's comment is not what the tree has.
	Picture Rule = "picture"
	// PackageComment: a package that does not say what it is.
	PackageComment Rule = "package-comment"
	// DocComment: an exported identifier that does not say what it is.
	DocComment Rule = "doc-comment"
	// Name: a file or package whose name says nothing.
	Name Rule = "name"
	// Sleep: a test that sleeps.
	Sleep Rule = "sleep"
	// Length: a file that is too long to read.
	Length Rule = "length"
	// Semantics: the id of a case that docs/semantics.md does not have, or that has no test.
	Semantics Rule = "semantics"
)

// Violation is one place where a rule is broken.
type Violation struct {
	File string // relative to the root of the tree
	Line int
	Rule Rule
	Text string // what is wrong, and what to do
}

// String returns "file:line: rule: text".
func (v Violation) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", v.File, v.Line, v.Rule, v.Text)
}

// Check checks the tree against every rule and returns the violations, sorted by
// file and line. Hidden folders, testdata and vendor are left out. The error means
// that the tree could not be read.
func Check(tree fs.FS) ([]Violation, error) {
	t, err := load(tree)
	if err != nil {
		return nil, fmt.Errorf("arch: %w", err)
	}
	for _, rule := range []func(*source){
		layers, thirdParty, clientGo, picture, packageComments, docComments, names, sleeps, lengths, semantics,
	} {
		rule(t)
	}
	slices.SortFunc(t.found, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Text, b.Text))
	})
	return t.found, nil
}

// source is a parsed tree and what has been found in it.
type source struct {
	module string // path of the root module
	fset   *token.FileSet
	files  []*file        // sorted by path
	cases  map[string]int // ids of docs/semantics.md, and their lines
	found  []Violation
}

// file is one Go file.
type file struct {
	*ast.File
	path  string
	dir   string // "." for the root
	test  bool
	lines int
}

// imports yields the file's imports with the path unquoted.
func (f *file) imports(yield func(string, *ast.ImportSpec) bool) {
	for _, spec := range f.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err == nil && !yield(p, spec) {
			return
		}
	}
}

func (s *source) report(f *file, pos token.Pos, rule Rule, format string, args ...any) {
	s.found = append(s.found, Violation{
		File: f.path, Line: s.fset.Position(pos).Line, Rule: rule, Text: fmt.Sprintf(format, args...),
	})
}

// packages returns the files of each package that are not tests, by folder. Two
// packages in one folder, as with a program kept out of the build, count as one
// folder with the name of the first.
func (s *source) packages() map[string][]*file {
	dirs := map[string][]*file{}
	for _, f := range s.files {
		if !f.test {
			dirs[f.dir] = append(dirs[f.dir], f)
		}
	}
	return dirs
}

// folderOf returns the folder of an import path of ours, relative to the root.
func (s *source) folderOf(importPath string) (dir string, ours bool) {
	if importPath == s.module {
		return ".", true
	}
	return strings.CutPrefix(importPath, s.module+"/")
}

func load(tree fs.FS) (*source, error) {
	mod, err := fs.ReadFile(tree, "go.mod")
	if err != nil {
		return nil, err
	}
	s := &source{fset: token.NewFileSet()}
	if s.module = modulePath(mod); s.module == "" {
		return nil, errors.New("go.mod has no module line")
	}
	s.cases = casesOf(tree)
	err = fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error {
		base := path.Base(p)
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if p != "." && (base[0] == '.' || base[0] == '_' || base == "testdata" || base == "vendor") {
				return fs.SkipDir
			}
			return nil
		case !strings.HasSuffix(base, ".go") || base[0] == '.' || base[0] == '_':
			return nil
		}
		text, err := fs.ReadFile(tree, p)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(s.fset, p, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		s.files = append(s.files, &file{
			File: parsed, path: p, dir: path.Dir(p),
			test:  strings.HasSuffix(base, "_test.go"),
			lines: bytes.Count(text, []byte("\n")),
		})
		return nil
	})
	return s, err
}

func modulePath(mod []byte) string {
	for sc := bufio.NewScanner(bytes.NewReader(mod)); sc.Scan(); {
		if fields := strings.Fields(sc.Text()); len(fields) >= 2 && fields[0] == "module" {
			return strings.Trim(fields[1], `"`)
		}
	}
	return ""
}
