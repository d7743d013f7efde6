package scaffold

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/format"
	"go/scanner"
	"go/token"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/mod/modfile"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/tarnproject/tarn/examples"
)

// names are the names in the example, the longer ones first. The kind is Website, its objects
// are sites, and website alone is the program.
var names = regexp.MustCompile(`(?:github\.com/tarnproject/tarn|\.)/examples/website\b|website\.go\b|singular: website\b|\n *shortNames: \[site\]` +
	`|[Ww]ebsites?|Sites?|\bsites?\b|\bexample\.com\b`)

// rename replaces the names of the example in a text.
func (p Project) rename(text string) string {
	lower, plural := strings.ToLower(p.Kind), p.plural()
	return names.ReplaceAllStringFunc(text, func(name string) string {
		switch {
		case strings.HasPrefix(name, TarnModule):
			return p.modulePath()
		case name == "./examples/website":
			return "."
		case name == "website.go":
			return lower + ".go"
		case strings.HasPrefix(name, "singular: "):
			return "singular: " + lower
		case strings.HasPrefix(name, "\n"):
			return p.shortNames(name)
		case name == "example.com":
			return p.Group
		case name == "website":
			return p.Name
		case name == "site":
			return lower
		case name == "websites", name == "sites":
			return plural
		case strings.HasSuffix(name, "s"):
			return p.Kind[:len(commonPrefix(lower, plural))] + plural[len(commonPrefix(lower, plural)):]
		}
		return p.Kind
	})
}

// shortNames returns a line of the CRD with the kind's initials, or nothing for one initial.
func (p Project) shortNames(line string) string {
	initials := strings.Map(func(r rune) rune {
		if !unicode.IsUpper(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, p.Kind)
	if len(initials) < 2 || len(initials) == len(p.Kind) {
		return ""
	}
	return strings.Replace(line, "site", initials, 1)
}

func commonPrefix(a, b string) string {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return a[:n]
}

// Files returns the files of the project by their path.
func (p Project) Files() (map[string][]byte, error) {
	files := map[string][]byte{
		"go.mod":    []byte(p.goMod()),
		"README.md": fmt.Appendf(nil, "# %s\n\nA Kubernetes operator for %s (%s), built with [Tarn](https://%s).\n\n```sh\n%s```\n", p.Name, p.Kind, p.Group, TarnModule, Steps),
	}
	err := eachSource(func(name, text string) (err error) {
		renamed := []byte(p.rename(text))
		switch {
		case path.Ext(name) == ".go":
			renamed, err = format.Source(renamed) // the imports may have another order
		case path.Base(name) == "rbac.yaml":
			renamed, err = sortRules(renamed)
		}
		files[p.rename(name)] = renamed
		return err
	})
	if err == nil && p.ClusterScoped {
		err = p.clusterScope(files)
	}
	return files, err
}

// clusterScope changes the files of a namespaced resource to those of a cluster-scoped one.
func (p Project) clusterScope(files map[string][]byte) error {
	lower := strings.ToLower(p.Kind)
	home := fmt.Sprintf("Namespace: %q", p.Name+"-system") // of the program
	for _, c := range []struct{ file, old, text string }{
		{"v1/" + lower + ".go", ", Namespaced: true}", "}"},
		{"config/crd.yaml", "scope: Namespaced", "scope: Cluster"},
		{"config/sample.yaml", "  namespace: default\n", ""},
		{"controller.go", "Namespace: " + lower + ".Namespace", home},
		{"controller_test.go", `sampleKey   = tarn.Key{Namespace: "default", `, "sampleKey   = tarn.Key{"},
		{"controller_test.go", `childrenKey = tarn.Key{Namespace: "default"`, "childrenKey = tarn.Key{" + home},
	} {
		if bytes.Count(files[c.file], []byte(c.old)) != 1 {
			return fmt.Errorf("%s does not have %q once", c.file, c.old)
		}
		files[c.file] = bytes.Replace(files[c.file], []byte(c.old), []byte(c.text), 1)
	}
	return nil
}

// Steps are the commands that test and run a project, in its directory.
const Steps = `go mod tidy     # resolve the dependencies
go test ./...   # test the controller in virtual time, against an API server with faults

# Start an API server with the custom resource and a sample of it, and leave it running.
go tool tarn-apiserver --seed config --kubeconfig-out dev.kubeconfig

# In a second terminal, run the controller and watch what it does.
KUBECONFIG=dev.kubeconfig go run .
`

// goMod returns the module file. The tool lines make the commands of the same version
// available as go tool tarn and go tool tarn-apiserver.
func (p Project) goMod() string {
	text := fmt.Sprintf("module %s\n\ngo %s\n\ntool (\n\t%s/cmd/tarn\n\t%[3]s/cmd/tarn-apiserver\n)\n\nrequire %[3]s %s\n", p.modulePath(), goVersion, TarnModule, cmp.Or(p.Version, "v0.0.0"))
	if p.Source != "" {
		text += fmt.Sprintf("\nreplace %s => %s\n", TarnModule, modfile.AutoQuote(p.Source))
	}
	return text
}

// sortRules sorts the rules of roles by API group, as tarn.Rules does.
func sortRules(text []byte) ([]byte, error) {
	var docs [][]byte
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text)); ; {
		var role map[string]any
		if err := decoder.Decode(&role); errors.Is(err, io.EOF) {
			return bytes.Join(docs, []byte("---\n")), nil
		} else if err != nil {
			return nil, err
		}
		rules, _ := role["rules"].([]any)
		slices.SortStableFunc(rules, func(a, b any) int { return cmp.Compare(groupOf(a), groupOf(b)) })
		doc, err := sigsyaml.Marshal(role)
		if err != nil {
			return nil, err
		}
		docs = append(docs, doc)
	}
}

func groupOf(rule any) string {
	fields, _ := rule.(map[string]any)
	groups, _ := fields["apiGroups"].([]any)
	return fmt.Sprint(groups...)
}

// identifiers returns the names that the example's Go files use, apart from those that are
// replaced, and Go's keywords.
func identifiers() (map[string]bool, error) {
	used := map[string]bool{}
	for t := token.BREAK; t <= token.VAR; t++ {
		used[t.String()] = true
	}
	err := eachSource(func(name, text string) error {
		if path.Ext(name) != ".go" {
			return nil
		}
		var s scanner.Scanner
		s.Init(token.NewFileSet().AddFile(name, -1, len(text)), []byte(text), nil, 0)
		for _, t, literal := s.Scan(); t != token.EOF; _, t, literal = s.Scan() {
			if t == token.IDENT && !names.MatchString(literal) {
				used[literal] = true
			}
		}
		return nil
	})
	return used, err
}

// eachSource calls a function with the path and text of each file of the example.
func eachSource(do func(name, text string) error) error {
	website, err := fs.Sub(examples.Website, "website")
	if err != nil {
		return err
	}
	return fs.WalkDir(website, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(website, name)
		if err != nil {
			return err
		}
		return do(name, string(text))
	})
}
