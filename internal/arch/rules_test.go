package arch

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

var rewrite = flag.Bool("rewrite", false, "rewrite what the files in testdata expect")

// The files in testdata are small trees: a comment, then for each file a line
// "-- path --" and its text. What is found in the tree stands under "-- found --".
func TestEachRuleFindsItsViolations(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no trees in testdata: %v", err)
	}
	broken := map[Rule]bool{}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			given, want, ok := strings.Cut(string(text), "-- found --\n")
			if !ok {
				t.Fatal(`no "-- found --" line`)
			}
			found, err := Check(tree(t, given))
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, v := range found {
				broken[v.Rule] = true
				fmt.Fprintln(&got, v)
			}
			if *rewrite {
				if err := os.WriteFile(path, []byte(given+"-- found --\n"+got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got.String() != want {
				t.Errorf("found:\n%s\nwant:\n%s", got.String(), want)
			}
		})
	}
	all := []Rule{
		Layers, ThirdParty, ClientGo, Picture, PackageComment,
		DocComment, Name, Sleep, Length, Semantics,
	}
	for _, rule := range all {
		if !broken[rule] {
			t.Errorf("no tree in testdata breaks the rule %s", rule)
		}
	}
	if len(broken) != len(all) {
		t.Errorf("rules %v, want %v", slices.Sorted(maps.Keys(broken)), all)
	}
}

// tree makes a file system of a file in testdata, with a go.mod. A line "... 500
// lines" stands for as many blank ones.
func tree(t *testing.T, given string) fstest.MapFS {
	t.Helper()
	fsys := fstest.MapFS{"go.mod": {Data: []byte("module example.com/m // ours\n\ngo 1.26\n")}}
	var name string
	for line := range strings.Lines(given) {
		if rest, ok := strings.CutPrefix(line, "-- "); ok {
			if name, ok = strings.CutSuffix(rest, " --\n"); ok {
				fsys[name] = &fstest.MapFile{}
				continue
			}
		}
		if name == "" {
			continue
		}
		var blank int
		if n, _ := fmt.Sscanf(line, "... %d lines", &blank); n == 1 {
			line = strings.Repeat("\n", blank)
		}
		fsys[name].Data = append(fsys[name].Data, line...)
	}
	return fsys
}

func TestATreeThatCannotBeReadIsAnErrorNotAVerdict(t *testing.T) {
	for want, fsys := range map[string]fstest.MapFS{
		"arch: open go.mod: file does not exist":                 {},
		"arch: go.mod has no module line":                        {"go.mod": {Data: []byte("go 1.26\n")}},
		"arch: a/a.go:1:1: expected 'package', found notAClause": {"go.mod": {Data: []byte("module m\n")}, "a/a.go": {Data: []byte("notAClause\n")}},
	} {
		found, err := Check(fsys)
		if err == nil || !strings.Contains(err.Error(), want) || found != nil {
			t.Errorf("Check = %v, %v; want %s", found, err, want)
		}
	}
}
