package conformance

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// cases are how many the semantics have of each letter.
var cases = map[string]int{"L": 16, "W": 23, "Q": 11, "S": 8, "H": 10, "K": 7}

var caseID = regexp.MustCompile(`\b([LWQSHK])(\d\d)\b`)

// Each case of the semantics has a test here, by its name, or a line in doc.go, and not both.
// What TestAnswers compares does not count: there is nothing of Tarn in it.
func TestEveryCaseIsTestedOrExcused(t *testing.T) {
	tested := map[string]bool{}
	files, err := filepath.Glob("*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	set := token.NewFileSet()
	for _, file := range files {
		tree, err := parser.ParseFile(set, file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range namesOfTests(tree) {
			for _, id := range caseID.FindAllString(strings.ReplaceAll(name, "_", " "), -1) {
				tested[id] = true
			}
		}
	}
	excused := map[string]bool{}
	doc, err := parser.ParseFile(set, "doc.go", nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(doc.Doc.Text(), "# Cases that are not here")
	if !found {
		t.Fatal("doc.go has no list")
	}
	span := regexp.MustCompile(`\b([LWQSHK])(\d\d) to [LWQSHK](\d\d)\b`)
	for _, m := range span.FindAllStringSubmatch(list, -1) {
		first, _ := strconv.Atoi(m[2]) // two digits each
		last, _ := strconv.Atoi(m[3])
		for n := first; n <= last; n++ {
			excused[fmt.Sprintf("%s%02d", m[1], n)] = true
		}
	}
	for _, id := range caseID.FindAllString(list, -1) {
		excused[id] = true
	}
	known := map[string]bool{}
	for letter, n := range cases {
		for i := 1; i <= n; i++ {
			id := fmt.Sprintf("%s%02d", letter, i)
			known[id] = true
			switch {
			case !tested[id] && !excused[id]:
				t.Errorf("%s has no test and is not excused", id)
			case tested[id] && excused[id]:
				t.Errorf("%s is tested: it needs no excuse", id)
			}
		}
	}
	for _, ids := range []map[string]bool{tested, excused} {
		for id := range ids {
			if !known[id] {
				t.Errorf("%s is no case of the semantics", id)
			}
		}
	}
}

// namesOfTests returns the names of a file's tests, and the texts in those of subtests.
func namesOfTests(file *ast.File) (names []string) {
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if strings.HasPrefix(f.Name.Name, "Test") {
			names = append(names, strings.TrimPrefix(f.Name.Name, "Test"))
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 2 {
				return true
			}
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Run" {
				ast.Inspect(call.Args[0], func(n ast.Node) bool {
					if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
						names = append(names, text.Value)
					}
					return true
				})
			}
			return true
		})
	}
	return names
}
