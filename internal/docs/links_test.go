package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

var (
	link    = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)]*))?\)`)
	code    = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	fenced  = regexp.MustCompile("(?s)```.*?```")
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	dropped = regexp.MustCompile(`[^\w\- ]`) // from the anchor of a heading
)

func TestLinksLeadToWhatExists(t *testing.T) {
	all := pages(t)
	anchors := map[string][]string{}
	for page, text := range all {
		for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			anchors[page] = append(anchors[page], strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
		}
	}
	for page, text := range all {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
			to := path.Join(path.Dir(page), m[1])
			if m[1] == "" {
				to = page
			}
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", page, m[1])
			}
			if m[2] != "" && !slices.Contains(anchors[to], m[2]) {
				t.Errorf("%s: %s has no heading #%s", page, to, m[2])
			}
		}
	}
}

// tourStop is a link whose text is an identifier, such as [`Reflector.Run`](reflector/reflector.go).
var tourStop = regexp.MustCompile("\\[`([\\w.]+)`\\]\\(([^)#]+\\.go|[^)#.]+)\\)")

// The tour of the source leads to files and folders, which declare what the text of the link names.
func TestTheTourNamesWhatTheSourceDeclares(t *testing.T) {
	const page = "CONTRIBUTING.md"
	stops := 0
	for _, m := range tourStop.FindAllStringSubmatch(pages(t)[page], -1) {
		name, to := m[1], m[2]
		if name == path.Base(to) {
			continue // a file or a package
		}
		stops++
		declared, pkg := declarationsIn(t, filepath.Join(root, to))
		if !declared[name] && !declared[strings.TrimPrefix(name, pkg+".")] {
			t.Errorf("%s: %s does not declare %s", page, to, name)
		}
	}
	if stops == 0 {
		t.Errorf("%s has no tour", page)
	}
}

// declarationsIn returns the names of the functions, methods and types in a file, or in those of a folder, and
// the name of their package.
func declarationsIn(t *testing.T, at string) (names map[string]bool, pkg string) {
	t.Helper()
	files := []string{at}
	if filepath.Ext(at) != ".go" {
		var err error
		if files, err = filepath.Glob(filepath.Join(at, "*.go")); err != nil {
			t.Fatal(err)
		}
	}
	names = map[string]bool{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			continue
		}
		pkg = strings.TrimSuffix(file.Name.Name, "_test")
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					names[receiver(d.Recv.List[0].Type)+"."+d.Name.Name] = true
				} else {
					names[d.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok {
						names[s.Name.Name] = true
					}
				}
			}
		}
	}
	return names, pkg
}

// receiver returns the name of a receiver's type.
func receiver(t ast.Expr) string {
	switch e := t.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// Each module that go.mod requires directly is in the table of a decision, with the reason.
func TestEveryDependencyHasAReason(t *testing.T) {
	const page = "docs/decisions/0002-dependencies.md"
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	mod, err := modfile.Parse("go.mod", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	reasons := pages(t)[page]
	version := regexp.MustCompile(`/v[0-9]+$`)
	for _, r := range mod.Require {
		if name := version.ReplaceAllString(r.Mod.Path, ""); !r.Indirect && !strings.Contains(reasons, name) {
			t.Errorf("%s has no row for %s", page, name)
		}
	}
}

var message = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (?:info|warn|error) \\|")

func TestTheLogMessagesInTheDocumentationExist(t *testing.T) {
	const page = "docs/operating/README.md"
	rows := message.FindAllStringSubmatch(pages(t)[page], -1)
	if len(rows) == 0 {
		t.Fatalf("%s has no table of messages", page)
	}
	var sources strings.Builder
	for _, dir := range []string{"wire", "reflector", "informer", "controller", "controller/leader", "controller/recorder", "controller/shard"} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sources.Write(text)
		}
	}
	for _, row := range rows {
		if !strings.Contains(sources.String(), `"`+row[1]+`"`) {
			t.Errorf("%s: no package logs %q", page, row[1])
		}
	}
}
