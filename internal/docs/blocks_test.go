package docs

import (
	"errors"
	"fmt"
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

// names are the packages that a block of code may use without an import. A page changes them
// for all its blocks with import lines in a comment that begins with "<!-- go".
var names = map[string]string{
	"atomic": "sync/atomic", "context": "context", "errors": "errors", "fmt": "fmt", "log": "log", "os": "os",
	"signal": "os/signal", "slog": "log/slog", "synctest": "testing/synctest", "testing": "testing", "time": "time",

	"tarn": module, "apiserver": module + "/apiserver", "clientgo": module + "/clientgo",
	"controller": module + "/controller", "leader": module + "/controller/leader", "informer": module + "/informer", "object": module + "/object",
	"store": module + "/store", "tarntest": module + "/tarntest", "wire": module + "/wire", "workqueue": module + "/workqueue",

	"appsv1": "k8s.io/api/apps/v1", "corev1": "k8s.io/api/core/v1",
	"apierrors": "k8s.io/apimachinery/pkg/api/errors", "metav1": "k8s.io/apimachinery/pkg/apis/meta/v1",
	"labels": "k8s.io/apimachinery/pkg/labels", "runtime": "k8s.io/apimachinery/pkg/runtime",
	"corev1apply": "k8s.io/client-go/applyconfigurations/core/v1", "rest": "k8s.io/client-go/rest",
}

// common is declared on every page.
const common = "var ctx context.Context\n"

// block is a fenced piece of a page, or a comment that begins with "<!-- go".
type block struct {
	page   string
	line   int      // of its first line
	info   []string // the words behind the opening fence
	hidden bool     // a comment
	notRun string   // why the commands are not run, from a comment before the block
	text   string
}

// pages returns the documentation by path relative to the root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	paths, err := fs.Glob(os.DirFS(root), "*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"docs", "examples"} {
		err := fs.WalkDir(os.DirFS(root), dir, func(p string, _ fs.DirEntry, err error) error {
			if path.Ext(p) == ".md" {
				paths = append(paths, p)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range paths {
		text, err := os.ReadFile(filepath.Join(root, p))
		if err != nil {
			t.Fatal(err)
		}
		texts[p] = string(text)
	}
	return texts
}

// blocks returns the blocks of a page.
func blocks(page, text string) (found []block) {
	var open *block
	end, notRun, n := "", "", 0
	for line := range strings.Lines(text) {
		n++
		trimmed := strings.TrimSpace(line)
		switch {
		case open != nil && trimmed == end:
			found, open = append(found, *open), nil
		case open != nil:
			open.text += line
		case strings.HasPrefix(trimmed, "```"):
			open, end = &block{page: page, line: n + 1, info: strings.Fields(trimmed[3:]), notRun: notRun}, "```"
			notRun = ""
		case trimmed == "<!-- go":
			open, end = &block{page: page, line: n + 1, info: []string{"go"}, hidden: true}, "-->"
		case strings.HasPrefix(trimmed, "<!-- not run: "):
			notRun = strings.TrimSuffix(strings.TrimPrefix(trimmed, "<!-- not run: "), "-->")
		case trimmed != "":
			notRun = ""
		}
	}
	return found
}

// is reports whether the block's opening fence has a word.
func (b block) is(word string) bool { return slices.Contains(b.info, word) }

// word returns what follows a prefix such as "file=" in the words behind the fence.
func (b block) word(prefix string) string {
	for _, word := range b.info {
		if rest, ok := strings.CutPrefix(word, prefix); ok {
			return rest
		}
	}
	return ""
}

// unit is what the compiler sees as one package: the fragments of a page, or the files of a
// folder that a page describes, or one complete file.
type unit struct {
	name   string
	whole  bool // files with package clauses; unused names are errors
	blocks []block
}

// unitsOf returns the packages of a page.
func unitsOf(page, text string) []*unit {
	fragments := &unit{name: page, blocks: []block{{page: page, line: 1, hidden: true, text: common}}}
	units := []*unit{fragments}
	folders := map[string]*unit{}
	for _, b := range blocks(page, text) {
		switch {
		case len(b.info) == 0 || b.info[0] != "go" || b.is("notyet"):
		case !strings.HasPrefix(b.text, "package "):
			fragments.blocks = append(fragments.blocks, b)
		default:
			folder := fmt.Sprintf("%s:%d", page, b.line)
			if file := b.word("file="); file != "" {
				folder = page + "/" + path.Dir(file)
			}
			if folders[folder] == nil {
				folders[folder] = &unit{name: folder, whole: true}
				units = append(units, folders[folder])
			}
			folders[folder].blocks = append(folders[folder].blocks, b)
		}
	}
	return units
}

// parse parses the files of a unit. A fragment is a sequence of declarations or of statements;
// statements become the body of a function that returns an error.
func (u *unit) parse(fset *token.FileSet) ([]*ast.File, error) {
	imports := map[string]string{}
	for name, path := range names {
		imports[name] = path
	}
	for i, b := range u.blocks {
		if !b.hidden {
			continue
		}
		var rest []string
		for line := range strings.Lines(b.text) {
			if f := strings.Fields(line); len(f) == 3 && f[0] == "import" {
				imports[f[1]], line = strings.Trim(f[2], `"`), "\n"
			}
			rest = append(rest, line)
		}
		u.blocks[i].text = strings.Join(rest, "")
	}
	head := "package page\n"
	for name, path := range imports {
		head += fmt.Sprintf("import %s %q\n", name, path)
	}
	var files []*ast.File
	for _, b := range u.blocks {
		at := fmt.Sprintf("//line %s:%d\n", b.page, b.line)
		try := func(text string) (*ast.File, error) {
			return parser.ParseFile(fset, "page.go", text, parser.SkipObjectResolution)
		}
		var file *ast.File
		var err error
		if u.whole {
			file, err = try(at + b.text)
		} else if file, err = try(head + at + b.text); err != nil {
			var asBody error
			if file, asBody = try(head + "func _() error {\n" + at + b.text + "\npanic(0)\n}"); asBody == nil {
				err = nil
			} else if !startsDeclaration(b.text) {
				err = asBody
			}
		}
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

func startsDeclaration(text string) bool {
	return strings.HasPrefix(text, "func ") || strings.HasPrefix(text, "type ")
}

// importsOf returns the import paths of files.
func importsOf(files []*ast.File) (paths []string) {
	for _, f := range files {
		for _, spec := range f.Imports {
			paths = append(paths, strings.Trim(spec.Path.Value, `"`))
		}
	}
	return paths
}

// Code that is shown must compile against this version of the packages. The go command runs in
// the e2e module, which also has controller-runtime.
func TestTheCodeInTheDocumentationCompiles(t *testing.T) {
	fset := token.NewFileSet()
	parsed := map[*unit][]*ast.File{}
	var units []*unit
	var paths []string
	count := 0
	for page, text := range pages(t) {
		for _, u := range unitsOf(page, text) {
			files, err := u.parse(fset)
			if err != nil {
				t.Error(err)
				continue
			}
			for _, b := range u.blocks {
				if !b.hidden {
					count++
				}
			}
			parsed[u], units, paths = files, append(units, u), append(paths, importsOf(files)...)
		}
	}
	if count == 0 {
		t.Fatal("no blocks of Go code")
	}
	slices.Sort(paths)
	imp, _ := exported(t, fset, filepath.Join(root, "e2e"), slices.Compact(paths)...)
	slices.SortFunc(units, func(a, b *unit) int { return strings.Compare(a.name, b.name) })
	for _, u := range units {
		conf := types.Config{Importer: imp, Error: func(err error) {
			var e types.Error
			if errors.As(err, &e) && (u.whole || !e.Soft) {
				t.Error(err)
			}
		}}
		_, _ = conf.Check(u.name, fset, parsed[u], nil)
	}
	t.Logf("%d blocks", count)
}
