package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
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
	out, err *printer

	cluster clusterFlags
	verbose int
	log     *slog.Logger // made after the flags have been read; quiet without -v
	program string       // how this program is called, in commands to try
}

// terminal returns the descriptor of standard output if a person is looking at it.
func (e *env) terminal() (fd int, ok bool) {
	f, isFile := e.out.to.(*os.File)
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
	e := &env{in: in, out: newPrinter(out), err: newPrinter(errs), log: slog.New(slog.DiscardHandler), program: programName(os.Args[0], exec.LookPath)}
	root := newRoot(e)
	root.SetArgs(append([]string{}, args...)) // of nil, cobra makes the process's own
	err := root.ExecuteContext(ctx)
	if lost := e.out.err(); lost != nil {
		err = lost
	}
	var usage *usageError
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errFound):
		return exitFailed
	case errors.As(err, &usage):
		fmt.Fprintln(e.err, "tarn:", plain(sentence(err)))
		return exitUsage
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(e.err, "tarn: interrupted") // and no fault of the server's
		return exitFailed
	}
	fmt.Fprintln(e.err, "tarn:", plain(sentence(err)))
	return exitFailed
}

func newRoot(e *env) *cobra.Command {
	root := &cobra.Command{
		Use:   "tarn",
		Short: "See what a Kubernetes API's resources are doing",
		Long: `tarn shows what a Kubernetes API's resources are doing: it watches them, mirrors them,
reports why they cannot be watched, and serves an API of its own for experiments.

The exit status is 0 on success, including a view ended with Ctrl-C or SIGTERM; 2 when the
command line is wrong: an unknown flag or an invalid value, a resource that the server does
not have, a file or folder that does not exist; and 1 when anything else fails, or when
tarn doctor finds something broken. Control characters in the output are escaped.`,
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
			return noCommand(cmd, args[0])
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
	root.SetHelpCommand(newHelpCommand(root))
	return root
}

// newHelpCommand replaces cobra's, which takes a command that is not there for success.
func newHelpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about a command",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			var names []cobra.Completion
			for _, sub := range root.Commands() {
				if len(args) == 0 && sub.IsAvailableCommand() {
					names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			found, rest, err := root.Find(args)
			switch {
			case err != nil || len(rest) > 0 && found == root:
				return noCommand(root, args[0])
			case len(rest) > 0:
				return usagef("%s has no commands of its own, such as %q", found.CommandPath(), rest[0])
			}
			found.InitDefaultHelpFlag() // so that it is among the flags
			return found.Help()
		},
	}
}

func noCommand(root *cobra.Command, name string) error {
	if like := root.SuggestionsFor(name); len(like) > 0 {
		return usagef("there is no command %q; did you mean %s?", name, strings.Join(like, " or "))
	}
	return usagef("there is no command %q; see tarn --help", name)
}

// throughGo runs the program without installing it.
const throughGo = "go run ./cmd/tarn"

// programName says how a program that was started as arg0 is called once more.
func programName(arg0 string, lookPath func(string) (string, error)) string {
	if strings.Contains(arg0, "go-build") {
		return throughGo // what go run makes is gone when it ends
	}
	if _, err := lookPath("tarn"); err == nil {
		return "tarn"
	}
	return shellWord(arg0)
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
