package arch

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A dependency or a megabyte more in what users build is a decision, not an accident: the sizes have a
// limit, and testdata/linked has the modules that each program links.
func TestProgramsLinkNoMoreThanTheyNeed(t *testing.T) {
	if testing.Short() {
		t.Skip("links two programs")
	}
	for _, program := range []struct {
		dir   string
		flags string
		most  int64 // bytes
	}{
		{dir: "cmd/tarn", most: 80e6},
		{dir: "examples/website", flags: "-s -w", most: 23e6},
	} {
		t.Run(filepath.Base(program.dir), func(t *testing.T) {
			golden := filepath.Join("testdata", "linked", filepath.Base(program.dir)+".golden")
			binary := filepath.Join(t.TempDir(), "program")
			run(t, "go", "build", "-ldflags="+program.flags, "-o", binary, "../../"+program.dir)
			var modules []string
			for line := range strings.Lines(run(t, "go", "version", "-m", binary)) {
				if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "dep" {
					modules = append(modules, fields[1]+"\n")
				}
			}
			slices.Sort(modules)
			linked := strings.Join(modules, "")
			if *rewrite {
				if err := os.WriteFile(golden, []byte(linked), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if linked != string(want) {
				t.Errorf("it links the modules\n%s\nwant\n%s\nIf the change is intended: go test ./internal/arch -run Link -rewrite", linked, want)
			}
			if info, err := os.Stat(binary); err != nil {
				t.Fatal(err)
			} else if t.Logf("%.1f MB", float64(info.Size())/1e6); info.Size() > program.most {
				t.Errorf("it has %.1f MB; the limit is %.1f MB", float64(info.Size())/1e6, float64(program.most)/1e6)
			}
		})
	}
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}
