package docs

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)
	code = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
)

func TestLinksLeadToFilesThatExist(t *testing.T) {
	for page, text := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
			to := path.Join(path.Dir(page), m[1])
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", page, m[1])
			}
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
