package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// The exit statuses, the same for all subcommands.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// env is what every subcommand works with.
type env struct {
	in       io.Reader
	out, err io.Writer

	cluster clusterFlags
	verbose int
	log     *slog.Logger // made after the flags have been read; quiet without -v
}

// terminal returns the descriptor of standard output if a person is looking at it.
func (e *env) terminal() (fd int, ok bool) {
	f, isFile := e.out.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	return int(f.Fd()), true
}

// colour reports whether the output may have colours: on a terminal that knows them, and
// never against NO_COLOR.
func (e *env) colour() bool {
	_, ok := e.terminal()
	return ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// usageError is a mistake in how the command was called. It ends with exitUsage.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// run runs the command line and returns the exit status.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	e := &env{in: in, out: out, err: errs, log: slog.New(slog.DiscardHandler)}
	root := newRoot(e)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	fmt.Fprintln(errs, "tarn:", err)
	var usage *usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

func newRoot(e *env) *cobra.Command {
	root := &cobra.Command{
		Use:           "tarn",
		Short:         "See what a Kubernetes API's resources are doing",
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRun: func(*cobra.Command, []string) {
			if e.verbose > 0 {
				level := slog.LevelInfo
				if e.verbose > 1 {
					level = slog.LevelDebug
				}
				e.log = slog.New(slog.NewTextHandler(e.err, &slog.HandlerOptions{Level: level}))
			}
		},
	}
	root.SetIn(e.in)
	root.SetOut(e.out)
	root.SetErr(e.err)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usagef("%v", err) })
	root.PersistentFlags().CountVarP(&e.verbose, "verbose", "v", "log what happens to standard error; twice for details")
	return root
}
