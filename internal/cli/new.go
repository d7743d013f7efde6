package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/mod/modfile"

	"github.com/tarnproject/tarn/internal/scaffold"
)

func newNewCommand(e *env) *cobra.Command {
	var p scaffold.Project
	cmd := &cobra.Command{
		Use:   "new NAME --kind KIND --group GROUP",
		Short: "Create a Go module with a controller for a custom resource",
		Long: `Create the directory NAME with a complete operator: the Go type of a custom resource, its
CustomResourceDefinition, a controller that runs a Deployment and a Service for each object, a
main function with metrics and leader election, tests in virtual time, roles, a Dockerfile and
a kustomization. It is the website example with the names of your own.

NAME is the name of the program: lower-case letters, digits and hyphens. Nothing is written if
there is already a file or directory with that name.

The module requires the version of Tarn that this program was installed with. A program that
was built from a source tree requires that tree: run it there, or specify it with --tarn.`,
		Example: `  tarn new website --kind Website --group example.com
  tarn new shopfront --kind BookStore --group shop.example.org --module example.org/shopfront
  tarn new shopfront --kind BookStore --group shop.example.org --tarn ../tarn
  tarn new tenants --kind Tenant --group example.org --cluster-scoped`,
		ValidArgsFunction: cobra.NoFileCompletions,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("specify one name, such as tarn new website --kind Website --group example.com")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			p.Name = args[0]
			return createProject(e, p)
		},
	}
	f := cmd.Flags()
	f.StringVar(&p.Kind, "kind", "", "the `kind` of the custom resource in UpperCamelCase, such as Website (required)")
	f.StringVar(&p.Group, "group", "", "the API `group` of the custom resource, a domain such as example.com (required)")
	f.BoolVar(&p.ClusterScoped, "cluster-scoped", false, "make the custom resource cluster-scoped instead of namespaced")
	f.StringVar(&p.Module, "module", "", "the `path` of the Go module (default NAME)")
	f.StringVar(&p.Source, "tarn", "", "use Tarn's sources in this `directory` instead of a released version")
	for _, flag := range []string{"kind", "group", "module"} {
		complete(cmd, flag, cobra.NoFileCompletions)
	}
	if err := cmd.MarkFlagDirname("tarn"); err != nil {
		panic(err)
	}
	return cmd
}

func createProject(e *env, p scaffold.Project) error {
	switch {
	case p.Kind == "":
		return usagef("specify the kind of the custom resource, such as --kind Website")
	case p.Group == "":
		return usagef("specify the API group of the custom resource, such as --group example.com")
	}
	if err := p.Validate(); err != nil {
		return usagef("%s", err)
	}
	var err error
	if p.Version, p.Source, err = requirement(p.Source); err != nil {
		return err
	}
	if err := p.Create(p.Name); errors.Is(err, fs.ErrExist) {
		return usagef("%s already exists; choose another name, or remove it", p.Name)
	} else if err != nil {
		return fmt.Errorf("cannot create %s: %s", p.Name, reason(err))
	}
	fmt.Fprintf(e.out, "Created %s. Next:\n\n", p.Name)
	for line := range strings.Lines("cd " + p.Name + "\n" + scaffold.Steps) {
		fmt.Fprint(e.out, strings.TrimRight("  "+line, " \n"), "\n")
	}
	return nil
}

// requirement returns the version of Tarn that a new module requires, or the source tree that
// it uses: the given one, that around the working directory, or none for an installed binary.
func requirement(dir string) (version, source string, err error) {
	if dir != "" {
		if source, err = filepath.Abs(dir); err == nil && !isTarn(source) {
			err = usagef("--tarn %s: not a directory with Tarn's sources: its go.mod must say module %s", dir, scaffold.TarnModule)
		}
		return "", source, err
	}
	// Only a binary that was built of a downloaded module has its checksum.
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Path == scaffold.TarnModule && info.Main.Sum != "" {
		return info.Main.Version, "", nil
	}
	source, err = os.Getwd()
	if err != nil {
		return "", "", err
	}
	for !isTarn(source) {
		if source == filepath.Dir(source) {
			return "", "", usagef("this program was built from Tarn's sources; specify where they are with --tarn DIRECTORY")
		}
		source = filepath.Dir(source)
	}
	return "", source, nil
}

// isTarn reports whether a directory is the root of Tarn's sources.
func isTarn(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	return err == nil && modfile.ModulePath(text) == scaffold.TarnModule
}
