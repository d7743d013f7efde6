package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/journal"
)

type replayFlags struct {
	listen, at, out string
	overwrite       bool
	speed           float64
}

func newReplayCommand(e *env) *cobra.Command {
	var flags replayFlags
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Serve a recording as a Kubernetes API",
		Long: `Serve a recording of tarn record, or the folder of a journal, as a Kubernetes API until
interrupted: for kubectl, tarn watch, or a controller that is to be seen at work on it. Objects
have the resource versions that they had.

The recording plays forward from its beginning, in the time that it took or at --speed. With
--at, the server has the objects of that moment and does not play unless --speed is given.

What clients write changes the copy in this server, until the object changes in the recording.
Each write is printed between the recorded changes, and between what controllers were recorded
doing.

The server listens on loopback and does not authenticate clients. It writes a kubeconfig for
them, by default to a temporary file that it removes when it stops.`,
		Example: `  tarn replay incident.tarn                       # as it happened
  tarn replay incident.tarn --speed 10
  tarn replay incident.tarn --at 02:13            # the objects of that moment
  tarn replay incident.tarn --at 02:13 --speed 1  # from that moment on`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("specify one recording, such as tarn replay incident.tarn")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return replayFile(cmd.Context(), e, flags, args[0], !cmd.Flags().Changed("at") || cmd.Flags().Changed("speed"))
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.at, "at", "", "the `time` to begin with: 02:13, 02:13:05 or 2026-01-31T02:13:05Z (default the beginning)")
	f.Float64Var(&flags.speed, "speed", 1, "how many times faster than recorded to play")
	f.StringVar(&flags.listen, "listen", "127.0.0.1:0", "the loopback `address` to listen on; port 0 picks a free port")
	f.StringVar(&flags.out, "kubeconfig-out", "", "the `file` to write the kubeconfig to (default a temporary file)")
	f.BoolVar(&flags.overwrite, "overwrite", false, "allow --kubeconfig-out to replace a file that tarn did not write")
	return cmd
}

// replayed returns a server for a recording at a moment, as text.
func replayed(e *env, path, at string, opts apiserver.ReplayOptions) (r *apiserver.Replayed, err error) {
	defer e.busy("reading %s", path)()
	if err := readableRecording(path); err != nil {
		return nil, err
	}
	if at != "" {
		if opts.At, err = momentOf(path, at); err != nil {
			return nil, err
		}
	}
	opts.Logger = e.log
	r, err = apiserver.NewReplay(path, opts)
	var format *journal.FormatError
	switch {
	case errors.Is(err, journal.ErrDamaged):
		return nil, fmt.Errorf("%s is not a recording, or is damaged at its beginning", path)
	case errors.As(err, &format):
		return nil, fmt.Errorf("%s has format %s; this version of tarn reads %d", path, format.Has, journal.Format)
	case err != nil:
		return nil, errors.New(oneLine(strings.TrimPrefix(err.Error(), "apiserver: ")))
	}
	return r, nil
}

func replayFile(ctx context.Context, e *env, flags replayFlags, path string, plays bool) error {
	if err := checkListen(flags.listen, false, "127.0.0.1:8080"); err != nil {
		return err
	}
	if !(flags.speed > 0) {
		return usagef("--speed must be more than 0")
	}
	screen := newScreen(e)
	opts := apiserver.ReplayOptions{Speed: flags.speed, Shown: func(ev apiserver.ReplayEvent) { _ = screen.print(shownEvent(screen.blank(), ev)) }}
	opts.Address = flags.listen
	r, err := replayed(e, path, flags.at, opts)
	if err != nil {
		return listenError(flags.listen, err)
	}
	cfg := r.Config()
	file, err := writeKubeconfig(map[string]*rest.Config{kubeconfigEntry: cfg}, flags.out, flags.overwrite)
	if err != nil {
		_ = r.Close() // the earlier error matters more
		return err
	}
	defer file.remove()
	_, end := r.Span()
	doing := "It stays at that moment."
	if plays {
		doing = fmt.Sprintf("It plays until %s, %g times as fast.", clockText(end), flags.speed)
	}
	fmt.Fprintf(e.out, "Serving %s on %s, in memory and without authentication, from %s on. %s\n\nTo use it:\n\n  export KUBECONFIG=%s\n\nPress Ctrl-C to stop.\n",
		path, cfg.Host, clockText(r.Now()), doing, shellWord(file.path))
	if err := e.out.err(); err != nil {
		_ = r.Close()
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		var err error
		if plays {
			if err = r.Play(ctx); err == nil {
				screen.say("The recording has ended; its last state is served.")
			} else if ctx.Err() != nil {
				err = nil
			} else {
				cancel()
			}
		}
		ended <- err
	}()
	served := r.Run(ctx)
	cancel()
	return errors.Join(served, <-ended)
}

// clockText formats a moment of a recording.
func clockText(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05.000") }

// shownEvent renders an event of a replay in one line.
func shownEvent(into *page, ev apiserver.ReplayEvent) *page {
	into.in(faint, ev.At.Local().Format("15:04:05.000")+" ")
	switch {
	case ev.Client:
		into.in(cyan, "client   ")
		into.putf("%s %s %s: %s\n", ev.What, ev.Resource, ev.Key, plain(ev.Result))
	case ev.Activity != nil:
		into.put("recorded " + activityText(ev.Activity) + "\n")
	default:
		into.putf("recorded %s %s %s\n", ev.What, ev.Resource, ev.Key)
	}
	return into
}

// activityText describes what a controller did.
func activityText(a *journal.Activity) string {
	text := strings.TrimSpace(a.Controller + ": " + a.Verb + " " + strings.TrimSpace(a.Resource+" "+a.Key.String()))
	if a.Cause != "" {
		text += ", because of " + a.Cause
	}
	if a.Took > 0 {
		text += ", " + short(a.Took)
	}
	if a.Outcome != "" {
		text += ": " + a.Outcome
	}
	return plain(strings.TrimPrefix(text, ": "))
}
