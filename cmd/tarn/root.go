package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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

// errFound ends a command whose output has said all there is to say, with exitFailed.
var errFound = errors.New("something is broken")

// run runs the command line and returns the exit status.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	e := &env{in: in, out: out, err: errs, log: slog.New(slog.DiscardHandler)}
	root := newRoot(e)
	root.SetArgs(append([]string{}, args...)) // of nil, cobra makes the process's own
	err := root.ExecuteContext(ctx)
	var usage *usageError
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errFound):
		return exitFailed
	case errors.As(err, &usage):
		fmt.Fprintln(errs, "tarn:", sentence(err))
		return exitUsage
	}
	fmt.Fprintln(errs, "tarn:", sentence(err))
	return exitFailed
}

func newRoot(e *env) *cobra.Command {
	root := &cobra.Command{
		Use:   "tarn",
		Short: "See what a Kubernetes API's resources are doing",
		Long: `tarn shows what a Kubernetes API's resources are doing: it watches them, mirrors them,
tells why they cannot be watched, and serves an API of its own to try things on.`,
		Example: `  tarn demo                      # see Tarn at work; no cluster is needed
  tarn watch pods -A             # what happens to all pods, from now on
  tarn watch deploy -o diff      # what changes in deployments, field by field
  tarn doctor pods,services      # can they be watched, and how well`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRun: func(*cobra.Command, []string) {
			if e.verbose > 0 {
				level := slog.LevelInfo
				if e.verbose > 1 {
					level = slog.LevelDebug
				}
				e.log = slog.New(slog.NewTextHandler(e.err, &slog.HandlerOptions{Level: level}))
			}
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
				return usagef("there is no command %q; did you mean %s?", args[0], strings.Join(like, " or "))
			}
			return usagef("there is no command %q; see tarn --help", args[0])
		},
		Args: cobra.ArbitraryArgs,
	}
	root.SuggestionsMinimumDistance = 2
	root.SetIn(e.in)
	root.SetOut(e.out)
	root.SetErr(e.err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%s; see %s --help", flagText(err), cmd.CommandPath())
	})
	root.PersistentFlags().CountVarP(&e.verbose, "verbose", "v", "log what happens to standard error; twice for details")
	root.AddCommand(
		newDemoCommand(e),
		newMirrorCommand(e),
		newApiserverCommand(e),
		newWatchCommand(e),
		newDoctorCommand(e),
		newVersionCommand(e),
		newCompletionCommand(e),
	)
	return root
}

// flagText says what is wrong with a flag.
func flagText(err error) string {
	var (
		unknown *pflag.NotExistError
		missing *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
	)
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return "there is no flag -" + unknown.GetSpecifiedName()
	case errors.As(err, &unknown):
		return "there is no flag --" + unknown.GetSpecifiedName()
	case errors.As(err, &missing):
		return "the flag --" + missing.GetFlag().Name + " needs a value"
	case errors.As(err, &invalid):
		takes := map[string]string{"duration": "a time, such as 30s", "bool": "true or false", "int": "a whole number", "float64": "a number"}
		flag := invalid.GetFlag()
		if what := takes[flag.Value.Type()]; what != "" {
			return fmt.Sprintf("--%s takes %s, and not %q", flag.Name, what, invalid.GetValue())
		}
		return fmt.Sprintf("--%s cannot be %q: %s", flag.Name, invalid.GetValue(), lastOf(err))
	}
	return oneLine(err.Error())
}

// noArgs refuses arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no arguments, and was given %q", cmd.CommandPath(), args[0])
	}
	return nil
}
