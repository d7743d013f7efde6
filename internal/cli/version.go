package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build describes this binary.
type build struct {
	Version  string
	Revision string
	Modified bool
	Go       string
	Platform string
}

// versionOf reads the build information.
func versionOf() build {
	b := build{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String returns the build in one line.
func (b build) String() string {
	text := "tarn " + b.Version
	if b.Revision != "" {
		text += " (" + b.Revision[:min(12, len(b.Revision))]
		if b.Modified {
			text += ", modified"
		}
		text += ")"
	}
	return fmt.Sprintf("%s, %s, %s", text, b.Go, b.Platform)
}

func newVersionCommand(e *env) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program",
		Example: `  tarn version`,
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprintln(e.out, versionOf())
			return nil
		},
	}
}
