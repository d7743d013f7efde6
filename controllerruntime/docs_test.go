package controllerruntime_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each difference that the documentation lists has a test.
func TestC01_EachListedDifferenceHasATest(t *testing.T) {
	page, err := os.ReadFile("../docs/controller-runtime.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(text)
	}
	rows := regexp.MustCompile("(?m)^\\| (CR[0-9]+) \\|.*$").FindAllString(string(page), -1)
	if len(rows) < 9 {
		t.Errorf("found %d differences", len(rows))
	}
	name := regexp.MustCompile("`(Test\\w+)`")
	for _, row := range rows {
		if !name.MatchString(row) {
			t.Errorf("no test: %s", row)
		}
	}
	for _, m := range name.FindAllStringSubmatch(string(page), -1) {
		if !strings.Contains(code.String(), "func "+m[1]+"(") {
			t.Errorf("there is no test %s", m[1])
		}
	}
}
