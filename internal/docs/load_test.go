package docs

import (
	"bytes"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tarnproject/tarn/internal/soak"
)

// root is the root of the source tree.
const root = "../.."

const module = "github.com/tarnproject/tarn"

// goCommand runs the go command in a folder and returns its standard output.
func goCommand(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return string(out)
}

// exported returns an importer of compiled packages, and their paths without dependencies. The
// go command runs in dir, so patterns are those of the module there.
func exported(t *testing.T, fset *token.FileSet, dir string, patterns ...string) (types.Importer, []string) {
	t.Helper()
	slow(t)
	files, named := map[string]string{}, []string{}
	args := append([]string{"list", "-export", "-deps", "-f", "{{.DepOnly}} {{.ImportPath}} {{.Export}}"}, patterns...)
	for line := range strings.Lines(goCommand(t, dir, args...)) {
		fields := strings.Fields(line)
		if len(fields) == 3 {
			files[fields[1]] = fields[2]
		}
		if fields[0] == "false" {
			named = append(named, fields[1])
		}
	}
	slices.Sort(named)
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		file, ok := files[path]
		if !ok {
			return nil, fmt.Errorf("no package %s", path)
		}
		return os.Open(file)
	}), named
}

// slow is called by tests that run the go command. They are skipped with -short and with -race,
// where they would prove the same at the same cost. Their cached results depend on the tree's Go
// files, which only the go command reads.
func slow(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs the go command")
	}
	soak.Measures(t)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".go" {
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
