package cli

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
	"golang.org/x/term"
)

// Exit statuses of all subcommands.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// env is the environment of a subcommand.
type env struct {
	in       io.Reader
	out, err *printer

	cluster clusterFlags
	verbose int
	log     *slog.Logger // set after flag parsing; discards without -v
	program string       // command to run this program, for suggestions
}

// terminal returns the file descriptor of standard output if it is a terminal.
func (e *env) terminal() (fd int, ok bool) {
	f, isFile := e.out.to.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	return int(f.Fd()), true
}

// colour reports whether output may be coloured: on a capable terminal, unless NO_COLOR is
// set.
func (e *env) colour() bool {
	_, ok := e.terminal()
	return ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// usageError is an error in the command line. It exits with exitUsage.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// errFound exits with exitFailed without another message.
var errFound = errors.New("something is broken")

// run runs the command line and returns the exit status.
func run(ctx context.Context, newRoot func(*env) *cobra.Command, args []string, in io.Reader, out, errs io.Writer) int {
	e := &env{in: in, out: newPrinter(out), err: newPrinter(errs), log: slog.New(slog.DiscardHandler), program: programName(os.Args[0], exec.LookPath)}
	root := newRoot(e)
	root.SetArgs(append([]string{}, args...)) // cobra replaces nil by os.Args
	err := root.ExecuteContext(ctx)
	if lost := e.out.err(); lost != nil {
		err = lost
	}
	var usage *usageError
	var status exitStatus
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errFound):
		return exitFailed
	case errors.As(err, &status):
		return int(status)
	case errors.As(err, &usage):
		fmt.Fprintln(e.err, "tarn:", plain(errorText(err)))
		return exitUsage
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(e.err, "tarn: interrupted") // not a failure of the server
		return exitFailed
	}
	fmt.Fprintln(e.err, "tarn:", plain(errorText(err)))
	return exitFailed
}

// newRoot returns the command tarn.
func newRoot(e *env) *cobra.Command { return newRootWith(e, newApiserverLink(e)) }

// newRootWith returns the command tarn with the given command apiserver.
func newRootWith(e *env, server *cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:   "tarn",
		Short: "Watch and diagnose Kubernetes resources",
		Long: `tarn watches the resources of a Kubernetes API, diagnoses why they cannot be watched,
and serves an API of its own for experiments.

The exit status is 0 on success, including a command stopped with Ctrl-C or SIGTERM. It is 2
for errors in the command line: an unknown flag, an invalid value, an unknown resource, or a
file that does not exist. It is 1 for any other failure, including a failed check of tarn
doctor. Control characters in the output are escaped.`,
		Example: `  tarn demo                      # run a demo; no cluster needed
  tarn watch pods -A             # all pods and their changes
  tarn watch deploy -o diff      # changes of deployments, field by field
  tarn doctor pods,services      # check whether they can be watched`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return noCommand(cmd, args[0])
		},
		Args: cobra.ArbitraryArgs,
	}
	e.configure(root)
	root.AddCommand(
		newDemoCommand(e),
		server,
		newWatchCommand(e),
		newRecordCommand(e),
		newReplayCommand(e),
		newHistoryCommand(e),
		newDoctorCommand(e),
		newNewCommand(e),
		newVersionCommand(e),
	)
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil { // without a shell, or with an unknown one
		completion.Args = func(*cobra.Command, []string) error { return usagef("specify a shell: bash, zsh, fish, powershell") }
		completion.RunE = func(*cobra.Command, []string) error { return nil }
	}
	return root
}

// configure sets what the root commands of all programs have in common.
func (e *env) configure(root *cobra.Command) {
	root.Version = versionOf().String()
	root.SilenceErrors, root.SilenceUsage = true, true
	root.PersistentPreRun = func(*cobra.Command, []string) {
		if e.verbose > 0 {
			level := slog.LevelInfo
			if e.verbose > 1 {
				level = slog.LevelDebug
			}
			e.log = slog.New(slog.NewTextHandler(e.err, &slog.HandlerOptions{Level: level}))
		}
	}
	root.SuggestionsMinimumDistance = 2
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetIn(e.in)
	root.SetOut(e.out)
	root.SetErr(e.err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%s; see %s --help", oneLine(err.Error()), cmd.CommandPath())
	})
	root.PersistentFlags().CountVarP(&e.verbose, "verbose", "v", "log to standard error; twice for details")
}

func noCommand(root *cobra.Command, name string) error {
	if like := root.SuggestionsFor(name); len(like) > 0 {
		return usagef("unknown command %q; did you mean %s?", name, strings.Join(like, " or "))
	}
	return usagef("unknown command %q; see tarn --help", name)
}

// goRun runs the program without installing it.
const goRun = "go run ./cmd/tarn"

// programName returns the command to run a program again that was started as arg0.
func programName(arg0 string, lookPath func(string) (string, error)) string {
	if strings.Contains(arg0, "go-build") {
		return goRun // go run deletes its binary
	}
	if _, err := lookPath("tarn"); err == nil {
		return "tarn"
	}
	return shellWord(strings.Replace(arg0, serverName, "tarn", 1))
}

// noArgs rejects arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no arguments, got %q", cmd.CommandPath(), args[0])
	}
	return nil
}
