package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

type watchFlags struct {
	selectionFlags
	output        string
	once          bool
	timeout       time.Duration
	watchOnly     bool
	showSecrets   bool
	managedFields bool
}

func newWatchCommand(e *env) *cobra.Command {
	var flags watchFlags
	cmd := &cobra.Command{
		Use:   "watch TYPE[/NAME]...",
		Short: "Show objects and their changes",
		Long: `Show the objects of one or more resources and then every change, until interrupted.
After a failure the watch resumes where it stopped, or relists if its resource version has
expired. Failures are reported on standard error.

Resources are named as in kubectl: pods, po, deploy.apps, widgets.v1.example.com. TYPE/NAME is
one object.

The outputs table and wide have the columns of kubectl get, which the server computes. yaml is
a document for each object and again for each change, jsonl one event with type and object per
line. diff shows the changed fields of each object. The data of Secrets is hidden in all of
them.`,
		Example: `  tarn watch pods -n shop                     # one line per pod and per change
  tarn watch deploy/web -o diff               # changed fields of one object
  tarn watch pods,services -l app=web -A      # several resources, in all namespaces
  tarn watch pods -o wide                     # more columns
  tarn watch events -o jsonl | jq .object     # for programs
  tarn watch nodes --once -o yaml             # the current state`,
		Args:              resourceArgs,
		ValidArgsFunction: e.completeResources,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("timeout") && !flags.once {
				return usagef("--timeout requires --once")
			}
			return watch(cmd.Context(), e, flags, args)
		},
	}
	e.addCluster(cmd)
	flags.selectionFlags.add(cmd.Flags())
	cmd.Flags().StringVarP(&flags.output, "output", "o", "table", "the output `format`: "+strings.Join(outputs, ", "))
	cmd.Flags().BoolVar(&flags.once, "once", false, "print the current state and exit")
	cmd.Flags().DurationVar(&flags.timeout, "timeout", 30*time.Second, "how long --once waits")
	cmd.Flags().BoolVar(&flags.watchOnly, "watch-only", false, "omit the initial objects")
	cmd.Flags().BoolVar(&flags.showSecrets, "show-secrets", false, "show the data of Secrets")
	cmd.Flags().BoolVar(&flags.managedFields, "show-managed-fields", false, "show metadata.managedFields, and metadata.resourceVersion in diffs")
	complete(cmd, "output", fixed(outputs...))
	return cmd
}

// check validates the flags without contacting the server.
func (f *watchFlags) check(e *env) error {
	switch {
	case f.once && f.output == "diff":
		return usagef("--once and -o diff cannot be combined")
	case f.once && f.watchOnly:
		return usagef("--once and --watch-only cannot be combined")
	case f.once && f.timeout <= 0:
		return usagef("--timeout must be more than 0")
	}
	return f.selectionFlags.check(e)
}

// patience is how long shutdown waits for pending output.
const patience = time.Second

type view struct {
	flags     watchFlags
	screen    *screen
	resources []*viewed
	fail      context.CancelCauseFunc
	synced    func(*viewed) // called when a resource's objects were shown; nil for a view of which changes may be combined
	progress  func() string // for the status line, while mu is held; may be nil

	mu       sync.Mutex // guards renderer
	renderer renderer
}

// viewed is one resource, or one object, of a view.
type viewed struct {
	res    object.Resource
	mirror viewMirror
	// failures passes failures to follow. Sends never block the mirror.
	failures chan *reflector.Error
	// last is the latest failure, written by the mirror's reflector.
	last atomic.Pointer[reflector.Error]
}

func watch(ctx context.Context, e *env, flags watchFlags, args []string) error {
	if err := flags.check(e); err != nil {
		return err
	}
	v := &view{flags: flags, screen: newScreen(e)}
	shown := rendering{
		output: flags.output, showSecrets: flags.showSecrets,
		once: flags.once, noise: flags.managedFields,
		namespaces: flags.allNamespaces,
	}
	if _, err := shown.renderer(); err != nil {
		return err
	}
	found, done, err := v.open(ctx, e, args, shown.tabular())
	if err != nil {
		return err
	}
	defer done()
	for _, t := range found {
		shown.several = shown.several || t.Resource != found[0].Resource
	}
	if v.renderer, err = shown.renderer(); err != nil {
		return err
	}
	return v.run(ctx)
}

// open adds the mirrors of the resources that args name. done closes their connections.
func (v *view) open(ctx context.Context, e *env, args []string, rows bool) (found []target, done func(), err error) {
	client, namespace, err := e.client(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			client.CloseIdleConnections()
		}
	}()
	if found, err = e.resolveTargets(ctx, client, args); err != nil {
		return nil, nil, err
	}
	for _, t := range found {
		if err := watchableOnly(t.Discovered); err != nil {
			return nil, nil, err
		}
	}
	for _, t := range found {
		s := &viewed{res: t.Resource, failures: make(chan *reflector.Error, 16)}
		sel := v.flags.of(t.Resource, namespace)
		if t.name != "" {
			sel.Fields = strings.TrimPrefix(sel.Fields+","+fields.OneTermEqualSelector("metadata.name", t.name).String(), ",")
		}
		failed := func(err error) { v.failed(s, err) }
		if rows {
			s.mirror, err = newRowMirror(e, client, t.Resource, sel, failed)
		} else {
			s.mirror, err = newObjectMirror(e, client, t.Resource, sel, v.flags.managedFields, failed)
		}
		if err != nil {
			return nil, nil, err
		}
		v.resources = append(v.resources, s)
	}
	return found, client.CloseIdleConnections, nil
}

// failed is called by the mirror's reflector on every failure. A permanent failure ends the
// view unless the resource was shown already.
func (v *view) failed(s *viewed, err error) {
	var failure *reflector.Error
	if !errors.As(err, &failure) {
		return
	}
	s.last.Store(failure)
	select {
	case <-s.mirror.Synced():
	default:
		if cause := permanent(failure); cause != nil {
			v.fail(v.explain(s, cause))
			return
		}
	}
	select {
	case s.failures <- failure:
	default: // follow has enough to report
	}
}

// permanent returns the cause if retrying the first list cannot succeed, or nil. A rejected
// streaming list is not permanent, because a list follows.
func permanent(failure *reflector.Error) error {
	switch failure.Reason {
	case reflector.Unauthorized:
		return failure
	case reflector.Forbidden, reflector.NotFound, reflector.Rejected, reflector.TLS, reflector.WrongKind:
		if failure.Op == "list" {
			return failure
		}
	}
	return nil
}

// explain converts a rejected selector into a usage error.
func (v *view) explain(s *viewed, cause error) error {
	if apierrors.IsBadRequest(cause) && v.flags.fields != "" {
		if _, field, ok := strings.Cut(serverText(cause), "field label not supported: "); ok {
			return usagef("%s does not support field selector %s", s.res, field)
		}
		return usagef("the server rejected field selector %q for %s: %s", v.flags.fields, s.res, serverText(cause))
	}
	return cause
}

// run runs the mirrors and shows them until the context is done or something fails.
func (v *view) run(interrupted context.Context) error {
	ctx, fail := context.WithCancelCause(interrupted)
	v.fail = fail
	defer fail(nil)
	var running sync.WaitGroup
	for _, s := range v.resources {
		if !v.flags.once {
			var synced func()
			if v.synced != nil {
				synced = func() { v.synced(s) }
			}
			if err := s.mirror.subscribe(v.show, synced); err != nil {
				return err
			}
		}
		running.Go(func() { v.follow(ctx, s) })
		running.Go(func() {
			if err := s.mirror.Run(ctx); err != nil {
				v.fail(err)
			}
		})
	}
	defer notice(v.screen.say, v.waiting)()
	var err error
	if v.flags.once {
		if err = v.once(ctx); interrupted.Err() != nil && err != nil {
			err = v.incomplete()
		}
		fail(err)
	} else {
		running.Go(func() { v.updateStatus(ctx) })
		<-ctx.Done()
		if interrupted.Err() == nil {
			err = context.Cause(ctx)
		}
	}
	ended := make(chan struct{})
	go func() {
		v.screen.close()
		running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(patience): // the output is blocked
	}
	return err
}

// incomplete returns the error for an interrupted --once: the latest failure, if any.
func (v *view) incomplete() error {
	text := "interrupted before the initial list was complete"
	for _, s := range v.unsynced() {
		if last := s.last.Load(); last != nil {
			if why := failureText(last, informer.Status{}); why != "" {
				text += fmt.Sprintf("; %s: %s", s.res, why)
			}
		}
	}
	return errors.New(text)
}

// unsynced returns the resources that are not synced.
func (v *view) unsynced() (all []*viewed) {
	for _, s := range v.resources {
		select {
		case <-s.mirror.Synced():
		default:
			all = append(all, s)
		}
	}
	return all
}

// waiting names the lists that are not complete. follow reports failures.
func (v *view) waiting() string {
	var names []string
	for _, s := range v.unsynced() {
		names = append(names, s.res.String())
	}
	if len(names) == 0 {
		return ""
	}
	return "waiting to list " + strings.Join(names, ", ")
}

// once waits for all mirrors and prints their objects. It returns nil when everything was
// printed.
func (v *view) once(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, v.flags.timeout)
	defer cancel()
	var all []objectChange
	for _, s := range v.resources {
		if err := s.mirror.WaitSynced(waiting); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("%v timeout: %s", v.flags.timeout, errorText(err))
		}
		all = append(all, s.mirror.objects()...)
	}
	if len(all) == 0 {
		v.screen.say("no objects found")
		return nil
	}
	return v.print(all)
}

// show prints changes. It runs in a subscriber's goroutine.
func (v *view) show(all []objectChange) {
	if v.flags.watchOnly {
		all = slices.DeleteFunc(all, func(h objectChange) bool { return h.initial })
	}
	if err := v.print(all); err != nil {
		v.fail(err)
	}
}

func (v *view) print(all []objectChange) error {
	if len(all) == 0 {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	text := v.screen.blank()
	failed := v.renderer.render(text, all)
	if v.screen.print(text) != nil {
		return v.screen.out.err()
	}
	if failed != nil && !v.flags.once { // other objects are still shown
		v.screen.say("%v", failed)
		return nil
	}
	return failed
}
