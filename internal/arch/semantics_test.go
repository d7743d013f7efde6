package arch

import (
	"go/ast"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// specification is the page that defines the ids of cases, such as L06.
const specification = "docs/semantics.md"

var (
	caseID     = regexp.MustCompile(`\b[LWQSHKORPTECJ][0-9]{2}\b`)
	caseRow    = regexp.MustCompile(`(?m)^\| ([A-Z][0-9]{2}) \|`)
	testedCase = regexp.MustCompile(`^(?:Test|Fuzz)([LWQSHKORPTECJ][0-9]{2})+_`)
	testedID   = regexp.MustCompile(`[A-Z][0-9]{2}`)
)

// semantics wants the page to have every id that a comment or the name of a test refers to, and each
// id of the page to be in the name of a test.
func semantics(s *source) {
	tested := map[string]bool{}
	for _, f := range s.files {
		for _, group := range f.Comments {
			for _, c := range group.List {
				for _, id := range caseID.FindAllString(c.Text, -1) {
					s.checkCase(f, c, id)
				}
			}
		}
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || !f.test {
				continue
			}
			for _, id := range testedID.FindAllString(testedCase.FindString(fn.Name.Name), -1) {
				s.checkCase(f, fn, id)
				tested[id] = true
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.cases)) {
		if !tested[id] {
			s.found = append(s.found, Violation{File: specification, Line: s.cases[id], Rule: Semantics, Text: id + " has no test; name one Test" + id + "_…"})
		}
	}
}

func (s *source) checkCase(f *file, at ast.Node, id string) {
	if s.cases[id] == 0 {
		s.report(f, at.Pos(), Semantics, "%s does not have %s", specification, id)
	}
}

// casesOf returns the ids of the page and their lines. A tree without the page has none.
func casesOf(tree fs.FS) map[string]int {
	text, _ := fs.ReadFile(tree, specification)
	cases := map[string]int{}
	for _, m := range caseRow.FindAllSubmatchIndex(text, -1) {
		cases[string(text[m[2]:m[3]])] = 1 + strings.Count(string(text[:m[0]]), "\n")
	}
	return cases
}
