package clientgo_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/tools/cache"
)

var testName = regexp.MustCompile(`\bTest[A-Z]\w*`)

// testsIn returns the names of the tests in the files of folders.
func testsIn(t *testing.T, folders ...string) map[string]bool {
	declared, names := regexp.MustCompile(`(?m)^func (Test\w+)\(`), map[string]bool{}
	for _, folder := range folders {
		files, err := fs.Glob(os.DirFS(folder), "*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(filepath.Join(folder, file))
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
				names[m[1]] = true
			}
		}
	}
	return names
}

// rows returns the cells of the rows of a document's tables whose first cell fits.
func rows(t *testing.T, document, first string) [][]string {
	text, err := os.ReadFile(filepath.Join("..", "docs", document))
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if strings.HasPrefix(line, "|") && regexp.MustCompile(first).MatchString(strings.TrimSpace(cells[0])) {
			rows = append(rows, cells)
		}
	}
	return rows
}

// What differs is a closed list: each row has a test, and the test exists.
func TestTheListsInTheDocsNameTestsThatExist(t *testing.T) {
	ours := testsIn(t, ".", "factory", "factory/informers", "factory/dynamicinformer", "factory/metadatainformer", "../reflector", "../e2e/adapters")
	held := func(document, first string, least int, always bool) {
		rows := rows(t, document, first)
		if len(rows) < least {
			t.Errorf("%s has %d rows of %s, want %d at least", document, len(rows), first, least)
		}
		for _, cells := range rows {
			last := cells[len(cells)-1]
			names := testName.FindAllString(last, -1)
			if always && len(names) == 0 {
				t.Errorf("%s: %s has no test", document, cells[0])
			}
			for _, name := range names {
				if !ours[name] {
					t.Errorf("%s: there is no %s", document, name)
				}
			}
		}
	}
	held("clientgo-differences.md", `^D\d+$`, 10, true)
	held("clientgo-behaviours.md", `^Test`, 50, false)

	listed := map[string]bool{}
	for _, cells := range rows(t, "clientgo-differences.md", `^D\d+$`) {
		listed[strings.TrimSpace(cells[0])] = true
	}
	for name := range ours {
		if m := regexp.MustCompile(`^Test(D\d+)_`).FindStringSubmatch(name); m != nil && !listed[m[1]] {
			t.Errorf("%s is of a difference that is in no list", name)
		}
	}
}

// Every test of client-go's has a place in the list of behaviours, and each in the list is
// one of client-go's.
func TestTheYardstickIsWhole(t *testing.T) {
	folder := sourceOf(cache.NewStore)
	if _, err := os.Stat(filepath.Join(folder, "store_test.go")); err != nil {
		t.Skip("client-go's test files are not here") // a build that trims paths, or a vendored tree
	}
	root := filepath.Join(folder, "..", "..")
	theirs := testsIn(t, folder,
		filepath.Join(root, "dynamic", "dynamicinformer"), filepath.Join(root, "metadata", "metadatainformer"), filepath.Join(root, "informers"))
	delete(theirs, "TestMain")
	if !theirs["TestTypedIndexer"] {
		t.Skip("the list is that of client-go v0.37, which this build does not have") // the tests of e2e's module do
	}
	var groups []string // "TestHeap…" stands for all that begin so
	for _, cells := range rows(t, "clientgo-behaviours.md", `^Test`) {
		for word := range strings.SplitSeq(cells[0], ",") {
			name := strings.TrimSpace(word)
			if begin, ok := strings.CutSuffix(name, "…"); ok {
				groups = append(groups, begin)
				continue
			}
			if !theirs[name] {
				t.Errorf("client-go has no %s, or it is listed twice", name)
			}
			delete(theirs, name)
		}
	}
	for name := range theirs {
		if !slices.ContainsFunc(groups, func(begin string) bool { return strings.HasPrefix(name, begin) }) {
			t.Errorf("client-go's %s is not in the list", name)
		}
	}
}

// sourceOf returns the folder of the file that a function is in.
func sourceOf(function any) string {
	file, _ := runtime.FuncForPC(reflect.ValueOf(function).Pointer()).FileLine(reflect.ValueOf(function).Pointer())
	return filepath.Dir(file)
}
