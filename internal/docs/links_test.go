package docs

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	link = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)
	code = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
)

// later begin the paths that do not exist yet.
var later = []string{"examples/", "docs/operating/metrics.md"}

func TestLinksLeadToFilesThatExist(t *testing.T) {
	for page, text := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
			to := path.Join(path.Dir(page), m[1])
			if strings.Contains(m[1], "://") || slices.ContainsFunc(later, func(p string) bool { return strings.HasPrefix(to, p) }) {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", page, m[1])
			}
		}
	}
}
