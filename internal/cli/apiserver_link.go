package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"
)

// serverName is the command that tarn apiserver runs.
const serverName = "tarn-apiserver"

// newApiserverLink returns the command tarn apiserver of a program that does not link the
// server itself.
func newApiserverLink(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "apiserver",
		Short: apiserverShort,
		Long: `Serve the embedded Kubernetes API until interrupted. This runs the command tarn-apiserver,
which must be in the directory of tarn or in PATH: go install ./cmd/... installs both.
tarn apiserver --help shows its flags.`,
		Example: `  tarn apiserver                                        # an empty cluster
  tarn apiserver --help`,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			command, err := serverCommand(os.Args[0], os.Executable, exec.LookPath)
			if err != nil {
				return err
			}
			return e.delegate(cmd.Context(), append(command, args...))
		},
	}
}

// serverCommand returns the command line of tarn-apiserver: beside this program, or in PATH. For
// a program started by go run, it is go run as well.
func serverCommand(arg0 string, executable func() (string, error), lookPath func(string) (string, error)) ([]string, error) {
	if programName(arg0, lookPath) == goRun {
		return []string{"go", "run", "./cmd/" + serverName}, nil
	}
	name := serverName
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if self, err := executable(); err == nil {
		if path, err := lookPath(filepath.Join(filepath.Dir(self), name)); err == nil {
			return []string{path}, nil
		}
	}
	path, err := lookPath(name)
	if err != nil {
		return nil, fmt.Errorf("%s is neither beside tarn nor in PATH; install it: go install github.com/tarnproject/tarn/cmd/%[1]s@latest", serverName)
	}
	return []string{path}, nil
}

// delegate runs another command in place of this one and takes over its exit status. If ctx
// ends, the command is interrupted.
func (e *env) delegate(ctx context.Context, command []string) error {
	child := exec.CommandContext(ctx, command[0], command[1:]...)
	child.Stdin, child.Stdout, child.Stderr = e.in, e.out.to, e.err.to
	child.Cancel = func() error { return child.Process.Signal(os.Interrupt) }
	err := child.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exitStatus(exit.ExitCode())
	case err != nil && child.ProcessState != nil && child.ProcessState.Success():
		return nil // it ended as it was asked to
	case err != nil:
		return fmt.Errorf("cannot run %s: %w", command[0], err)
	}
	return nil
}

// exitStatus is the exit status of a command that has printed its own errors.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }
