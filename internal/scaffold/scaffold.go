// Package scaffold makes a new project of the website example: it copies the sources of
// examples/website and replaces their names. A [Project] has the new names.
package scaffold

import (
	"errors"
	"fmt"
	"go/doc"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/module"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// TarnModule is the module that a project requires.
const TarnModule = "github.com/tarnproject/tarn"

// goVersion is the go line of this module, and of the projects.
const goVersion = "1.26.0"

// Project describes a module to create.
type Project struct {
	// Name is the name of the program, its image, its roles and its lease: a DNS label.
	Name string
	// Kind is the kind of its custom resource, such as Website.
	Kind string
	// Group is the API group of that kind, a domain, such as example.com.
	Group string
	// ClusterScoped makes the custom resource cluster-scoped; its Deployments and Services are then in the
	// namespace of the program. Defaults to namespaced.
	ClusterScoped bool
	// Module is the path of the Go module. Defaults to Name.
	Module string
	// Version is the version of Tarn to require. Defaults to v0.0.0, which needs Source.
	Version string
	// Source is a directory with Tarn's sources that replaces Version. Defaults to none.
	Source string
}

// standard are the first elements of the standard library's import paths. Go looks for them nowhere else.
var standard = strings.Fields(`archive bufio builtin bytes cmd cmp compress container context crypto database debug embed encoding
	errors expvar flag fmt go hash html image index internal io iter log maps math mime net os path plugin reflect regexp runtime
	slices sort strconv strings structs sync syscall testing text time unicode unique unsafe vendor weak`)

var upperCamelCase = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)

// Validate returns an error that names the first invalid field and says what is valid.
func (p Project) Validate() error {
	if problems := validation.IsDNS1123Label(p.Name + "-system"); len(problems) > 0 {
		return fmt.Errorf("invalid name %q: must be at most 56 lower-case letters, digits and hyphens, such as shop-operator", p.Name)
	}
	if !upperCamelCase.MatchString(p.Kind) || len(p.plural()) > validation.DNS1035LabelMaxLength {
		return fmt.Errorf("invalid kind %q: must be UpperCamelCase, such as BookStore", p.Kind)
	}
	switch problems := validation.IsDNS1123Subdomain(p.plural() + "." + p.Group); {
	case len(problems) > 0 || !strings.Contains(p.Group, "."):
		return fmt.Errorf("invalid group %q: must be a domain in lower case, such as shop.example.org", p.Group)
	case strings.HasSuffix("."+p.Group, ".k8s.io"), strings.HasSuffix("."+p.Group, ".kubernetes.io"):
		return fmt.Errorf("invalid group %q: Kubernetes reserves k8s.io and kubernetes.io; use a domain of your own", p.Group)
	}
	if err := module.CheckImportPath(p.modulePath()); err != nil {
		return fmt.Errorf("invalid module path: %w", err)
	}
	if first, _, _ := strings.Cut(p.modulePath(), "/"); slices.Contains(standard, first) {
		return fmt.Errorf("invalid module path %q: %s is a package of Go's standard library; choose another path, such as example.org/%[1]s", p.modulePath(), first)
	}
	taken, err := identifiers()
	if err != nil {
		return err
	}
	for _, name := range []string{strings.ToLower(p.Kind), p.plural()} {
		if taken[name] || doc.IsPredeclared(name) {
			return fmt.Errorf("invalid kind %q: the generated code uses the name %s for something else; choose another kind and rename it later", p.Kind, name)
		}
	}
	return nil
}

func (p Project) modulePath() string {
	if p.Module == "" {
		return p.Name
	}
	return p.Module
}

// plural returns the resource name of the kind, such as bookstores.
func (p Project) plural() string {
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: p.Kind})
	return plural.Resource
}

// Create writes the project to a new directory. It fails with fs.ErrExist if there is anything
// with that name, and leaves nothing behind if it fails.
func (p Project) Create(dir string) (err error) {
	if err := p.Validate(); err != nil {
		return err
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = &fs.PathError{Op: "create", Path: dir, Err: fs.ErrExist}
		}
		return err
	}
	files, err := p.Files()
	if err != nil {
		return err
	}
	// Written elsewhere and renamed, so that the directory is complete or absent.
	temporary, err := os.MkdirTemp(filepath.Dir(dir), ".tarn-new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(temporary) // the earlier error matters more
		}
	}()
	for path, text := range files {
		path = filepath.Join(temporary, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	if err := os.Chmod(temporary, 0o755); err != nil {
		return err
	}
	return os.Rename(temporary, dir)
}
