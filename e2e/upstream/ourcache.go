package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// ourCache makes a copy of a module use controllerruntime.NewCache.
type ourCache struct {
	folder string // of the files that are changed: tests, and also
	also   string
	in     *regexp.Regexp
	by     string
	least  int // how many files have it
}

var (
	// byDefault replaces controller-runtime's constructor of caches, as its tests name it, and its default for clusters and
	// managers.
	byDefault = ourCache{"pkg", "pkg/cluster/cluster.go", regexp.MustCompile(`\bcache\.New\b`), "controllerruntime.NewCache", 5}
	// byTheLine adds the line to the managers that an operator's suites make.
	byTheLine = ourCache{"test/integration", "", regexp.MustCompile(`\bctrl\.NewManager\(\w+, ctrl\.Options\{`), "${0}NewCache: controllerruntime.NewCache,\n", 1}
)

func (c ourCache) use(dir string) error {
	root, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	work := fmt.Sprintf("go 1.26.0\n\nuse (\n\t.\n\t%s\n\t%s\n)\n", root, filepath.Join(root, "controllerruntime"))
	if err := os.WriteFile(filepath.Join(dir, "go.work"), []byte(work), 0o644); err != nil {
		return err
	}
	changed := 0
	err = filepath.WalkDir(filepath.Join(dir, filepath.FromSlash(c.folder)), func(name string, d fs.DirEntry, err error) error {
		wanted := strings.HasSuffix(name, "_test.go") || c.also != "" && strings.HasSuffix(name, filepath.FromSlash(c.also))
		if err != nil || d.IsDir() || !wanted {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil || !c.in.Match(text) {
			return err
		}
		changed++
		text = c.in.ReplaceAll(text, []byte(c.by))
		text = bytes.Replace(text, []byte("import (\n"), []byte("import (\n\t\""+tarn+"controllerruntime\"\n"), 1)
		return os.WriteFile(name, text, 0o644)
	})
	if err == nil && changed < c.least {
		err = fmt.Errorf("%s: %s is in %d files only", dir, c.in, changed)
	}
	return err
}
