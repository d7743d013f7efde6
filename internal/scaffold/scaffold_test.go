package scaffold

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

func TestAllNamesOfTheExampleAreReplaced(t *testing.T) {
	p := Project{Name: "shopfront", Kind: "BookStore", Group: "shop.example.org", Module: "example.org/shops/front", Source: "/src/tarn"}
	files, err := p.Files()
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range files {
		for _, old := range []string{"website", "site", "example.com", "/examples/"} {
			if strings.Contains(strings.ToLower(path+"\n"+string(text)), old) {
				t.Errorf("%s contains %q:\n%s", path, old, text)
			}
		}
	}
	for path, has := range map[string][]string{
		"go.mod":                 {"module example.org/shops/front\n", "require github.com/tarnproject/tarn v0.0.0\n", "replace github.com/tarnproject/tarn => /src/tarn\n"},
		"v1/bookstore.go":        {"type BookStoreSpec struct", `Group: "shop.example.org", Version: "v1", Resource: "bookstores", Kind: "BookStore"`},
		"controller.go":          {`v1 "example.org/shops/front/v1"`, "tarn.For(bookstores)", `"shop.example.org/dns"`},
		"config/crd.yaml":        {"name: bookstores.shop.example.org\n", "kind: BookStore\n", "singular: bookstore\n", "shortNames: [bs]\n"},
		"config/deployment.yaml": {"name: shopfront\n", "namespace: shopfront-system\n"},
		"Dockerfile":             {"-o /shopfront .\n"},
		"README.md":              {"# shopfront\n", Steps},
	} {
		for _, want := range has {
			if !strings.Contains(string(files[path]), want) {
				t.Errorf("%s has no %q:\n%s", path, want, files[path])
			}
		}
	}
}

func TestFormsOfANameFollowTheKind(t *testing.T) {
	for _, c := range []struct{ kind, want string }{
		{"BookStore", "bookstores BookStores bookstore BookStore p\n  shortNames: [bs]"},
		{"Policy", "policies Policies policy Policy p"},
		{"Website", "websites Websites website Website p"},
		{"API", "apis APIs api API p"},
	} {
		p := Project{Name: "p", Kind: c.kind}
		if got := p.rename("websites Websites site Website website\n  shortNames: [site]"); got != c.want {
			t.Errorf("%s: %q, want %q", c.kind, got, c.want)
		}
	}
}

// The roles are those that tarn.Rules prints, which are sorted by group.
func TestRulesAreSortedByTheirNewGroup(t *testing.T) {
	const rules = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: shopfront
rules:
- apiGroups:
  - shop.example.org
  resources:
  - bookstores
  verbs:
  - get
- apiGroups:
  - ""
  resources:
  - services
  verbs:
  - get
  - list
- apiGroups:
  - ""
  resources:
  - services
  verbs:
  - create
---
kind: Role
metadata:
  name: shopfront
`
	got, err := sortRules([]byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	first, others, ok := strings.Cut(rules, "- apiGroups:\n  - \"\"\n")
	others, end, ok2 := strings.Cut(others, "---\n")
	head, shop, ok3 := strings.Cut(first, "- apiGroups:\n")
	if want := head + "- apiGroups:\n  - \"\"\n" + others + "- apiGroups:\n" + shop + "---\n" + end; string(got) != want || !ok || !ok2 || !ok3 {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestInvalidNamesAreRefused(t *testing.T) {
	valid := Project{Name: "shopfront", Kind: "BookStore", Group: "shop.example.org"}
	if err := valid.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change func(*Project)
		want   string
	}{
		{func(p *Project) { p.Name = "" }, "invalid name"},
		{func(p *Project) { p.Name = "Shop" }, "invalid name"},
		{func(p *Project) { p.Name = "../shop" }, "invalid name"},
		{func(p *Project) { p.Name = strings.Repeat("a", 57) }, "at most 56"},
		{func(p *Project) { p.Kind = "bookStore" }, "UpperCamelCase"},
		{func(p *Project) { p.Kind = "Book-Store" }, "UpperCamelCase"},
		{func(p *Project) { p.Kind = "B" + strings.Repeat("a", 63) }, "invalid kind"},
		{func(p *Project) { p.Kind = "Deployment" }, "uses the name deployment"},
		{func(p *Project) { p.Kind = "Event" }, "uses the name events"},
		{func(p *Project) { p.Kind = "Type" }, "uses the name type"},
		{func(p *Project) { p.Kind = "String" }, "uses the name string"},
		{func(p *Project) { p.Group = "shop" }, "must be a domain"},
		{func(p *Project) { p.Group = "Shop.example.org" }, "must be a domain"},
		{func(p *Project) { p.Group = "apps.k8s.io" }, "reserves"},
		{func(p *Project) { p.Module = "a b" }, "invalid module path"},
		{func(p *Project) { p.Module = "../a" }, "invalid module path"},
		{func(p *Project) { p.Name = "net" }, "standard library"},
		{func(p *Project) { p.Module = "internal/shop" }, "standard library"},
	} {
		p := valid
		c.change(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", p, err, c.want)
		}
		dir := filepath.Join(t.TempDir(), "dir")
		if err := p.Create(dir); err == nil {
			t.Errorf("%+v was created", p)
		}
	}
}

// A failed Create leaves nothing behind, and changes nothing that exists.
func TestNothingIsOverwritten(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "shopfront")
	if err := os.WriteFile(dir, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := Project{Name: "shopfront", Kind: "BookStore", Group: "shop.example.org"}
	if err := p.Create(dir); !os.IsExist(err) {
		t.Errorf("over a file: %v", err)
	}
	if text, err := os.ReadFile(dir); string(text) != "mine" {
		t.Errorf("the file has %q, %v", text, err)
	}
	entries, err := os.ReadDir(parent)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestTheStandardLibraryIsKnown(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "std", "cmd").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range strings.Fields(string(out)) {
		if first, _, _ := strings.Cut(path, "/"); !slices.Contains(standard, first) {
			t.Errorf("%s is not in the list", first)
		}
	}
}

func TestAClusterScopedResourceHasNoNamespace(t *testing.T) {
	p := Project{Name: "tenants", Kind: "Tenant", Group: "example.org", ClusterScoped: true}
	files, err := p.Files()
	if err != nil {
		t.Fatal(err)
	}
	for path, has := range map[string]string{
		"config/crd.yaml": "scope: Cluster\n", "config/sample.yaml": "metadata:\n  name: shop\nspec:", "controller.go": `Namespace: "tenants-system", Name: tenant.Name`,
		"v1/tenant.go": `Kind: "Tenant"}`,
	} {
		if !strings.Contains(string(files[path]), has) {
			t.Errorf("%s has no %q:\n%s", path, has, files[path])
		}
	}
}

func TestTheGoVersionIsThatOfThisModule(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	mod, err := modfile.ParseLax("go.mod", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	if mod.Go.Version != goVersion || mod.Module.Mod.Path != TarnModule {
		t.Errorf("go.mod has %s, %s", mod.Module.Mod.Path, mod.Go.Version)
	}
}
