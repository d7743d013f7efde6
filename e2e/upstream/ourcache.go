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

// theirCache is controller-runtime's constructor of caches, as its packages and tests name it.
var theirCache = regexp.MustCompile(`\bcache\.New\b`)

// useOurCache makes a copy of controller-runtime use controllerruntime.NewCache wherever its tests, and its
// default for clusters and managers, use cache.New.
func useOurCache(dir string) error {
	root, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	work := fmt.Sprintf("go 1.26.0\n\nuse (\n\t.\n\t%s\n\t%s\n)\n", root, filepath.Join(root, "controllerruntime"))
	if err := os.WriteFile(filepath.Join(dir, "go.work"), []byte(work), 0o644); err != nil {
		return err
	}
	changed := 0
	err = filepath.WalkDir(filepath.Join(dir, "pkg"), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, "_test.go") && !strings.HasSuffix(name, filepath.FromSlash("pkg/cluster/cluster.go")) {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil || !theirCache.Match(text) {
			return err
		}
		changed++
		text = theirCache.ReplaceAll(text, []byte("controllerruntime.NewCache"))
		text = bytes.Replace(text, []byte("import (\n"), []byte("import (\n\t\""+tarn+"controllerruntime\"\n"), 1)
		return os.WriteFile(name, text, 0o644)
	})
	if err == nil && changed < 5 {
		err = fmt.Errorf("%s: cache.New is used in %d files only", dir, changed)
	}
	return err
}
