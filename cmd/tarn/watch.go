package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

// watchFlags are those of tarn watch.
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
		Use:   "watch RESOURCE...",
		Short: "Show what happens to objects, as it happens",
		Long: `Show the objects of one or more resources and then every change, until interrupted.
The view goes on where it stopped when the connection or the server fails, and lists anew
when the server has forgotten what came next; standard error tells of it.

A resource is written as for kubectl: pods, po, deploy.apps, widgets.v1.example.com.

The outputs are table, jsonl (an event a line, as type and object), yaml, and diff, which
tells what changed in each object, field by field. The data of Secrets is hidden.`,
		Example: `  tarn watch pods -n shop                     # a line for each pod, and for each change
  tarn watch pods,services -l app=web -A      # several resources, in all namespaces
  tarn watch deploy -o diff                   # which fields change
  tarn watch events -o jsonl | jq .object     # for programs
  tarn watch nodes --once -o yaml             # the state now, and no more`,
		Args:              resourceArgs,
		ValidArgsFunction: e.completeResources,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("timeout") && !flags.once {
				return usagef("--timeout is for --once; a view without it waits for the server")
			}
			return watch(cmd.Context(), e, flags, args)
		},
	}
	e.addCluster(cmd)
	flags.add(cmd, e)
	cmd.Flags().StringVarP(&flags.output, "output", "o", "table", strings.Join(outputs, ", "))
	cmd.Flags().BoolVar(&flags.once, "once", false, "print the state when it is complete, and end")
	cmd.Flags().DurationVar(&flags.timeout, "timeout", 30*time.Second, "how long --once waits for the state")
	cmd.Flags().BoolVar(&flags.watchOnly, "watch-only", false, "leave out the objects that are there at first")
	cmd.Flags().BoolVar(&flags.showSecrets, "show-secrets", false, "show the data of Secrets")
	cmd.Flags().BoolVar(&flags.managedFields, "show-managed-fields", false, "show metadata.managedFields, and in differences metadata.resourceVersion")
	complete(cmd, "output", fixed(outputs...))
	return cmd
}

// check tells what is wrong with the flags, before anybody is asked.
func (f *watchFlags) check() error {
	switch {
	case f.once && f.output == "diff":
		return usagef("--once shows a state and -o diff shows changes; choose one")
	case f.once && f.watchOnly:
		return usagef("--once shows a state and --watch-only leaves it out; choose one")
	case f.once && f.timeout <= 0:
		return usagef("--timeout must be more than 0")
	}
	return f.selectionFlags.check()
}

// patience is how long the end waits for output that is being written.
const patience = time.Second

// view is a running tarn watch.
type view struct {
	flags  watchFlags
	screen *screen
	sights []*sight
	fail   context.CancelCauseFunc

	mu       sync.Mutex // guards renderer, which is called by one subscriber at a time
	renderer renderer
}

// sight is one resource of a view.
type sight struct {
	res    object.Resource
	mirror *objectMirror
	// trouble has what failed, for the follower; it never blocks the mirror.
	trouble chan *reflector.Error
	// last is what failed last. The mirror's reflector writes it.
	last atomic.Pointer[reflector.Error]
}

func watch(ctx context.Context, e *env, flags watchFlags, args []string) error {
	if err := flags.check(); err != nil {
		return err
	}
	v := &view{flags: flags, screen: newScreen(e)}
	shown := rendering{
		output: flags.output, showSecrets: flags.showSecrets,
		once: flags.once, noise: flags.managedFields,
		namespaces: flags.all,
	}
	if _, err := shown.renderer(); err != nil {
		return err
	}
	client, namespace, err := e.client(ctx)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	found, err := e.resolve(ctx, client, args)
	if err != nil {
		return err
	}
	if err := watchableOnly(found); err != nil {
		return err
	}
	if len(found) > 1 {
		for _, d := range found {
			shown.resources = append(shown.resources, d.String())
		}
	}
	if v.renderer, err = shown.renderer(); err != nil {
		return err
	}
	var drop []object.FieldPath
	if !flags.managedFields {
		drop = append(drop, object.FieldPath{"metadata", "managedFields"})
	}
	for _, d := range found {
		s := &sight{res: d.Resource, trouble: make(chan *reflector.Error, 16)}
		s.mirror, err = newMirror(client, d.Resource, flags.of(d.Resource, namespace), drop, informer.Options[*unstructured.Unstructured]{
			Reflector: reflector.Options[*unstructured.Unstructured]{OnError: func(err error) { v.failed(s, err) }},
			Logger:    e.log,
		})
		if err != nil {
			return err
		}
		v.sights = append(v.sights, s)
	}
	return v.run(ctx)
}

// failed is called by a mirror's reflector for every failure. What cannot get better by
// waiting ends the view, as long as nothing has been shown of that resource.
func (v *view) failed(s *sight, err error) {
	var failure *reflector.Error
	if !errors.As(err, &failure) {
		return
	}
	s.last.Store(failure)
	select {
	case <-s.mirror.Synced():
	default:
		if cause := hopeless(failure); cause != nil {
			v.fail(v.explain(s, cause))
			return
		}
	}
	select {
	case s.trouble <- failure:
	default: // the follower has enough to tell
	}
}

// hopeless returns why a first list will not do better by itself; nil if it may. A
// streaming list that is refused is followed by a list, which decides.
func hopeless(failure *reflector.Error) error {
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

// explain makes a usage error of what the server says of our selectors.
func (v *view) explain(s *sight, cause error) error {
	if apierrors.IsBadRequest(cause) && v.flags.fields != "" {
		if _, field, ok := strings.Cut(serverText(cause), "field label not supported: "); ok {
			return usagef("%s cannot be selected by the field %s", s.res, field)
		}
		return usagef("the server does not take the field selector %q for %s: %s", v.flags.fields, s.res, serverText(cause))
	}
	return cause
}

// run runs the mirrors and shows them, until the context is done or something fails.
func (v *view) run(interrupted context.Context) error {
	ctx, fail := context.WithCancelCause(interrupted)
	v.fail = fail
	defer fail(nil)
	var running sync.WaitGroup
	for _, s := range v.sights {
		if !v.flags.once {
			if _, err := s.mirror.SubscribeBatch(func(_ context.Context, all []informer.Event[*unstructured.Unstructured]) {
				v.show(s, all)
			}, informer.SubOptions[*unstructured.Unstructured]{Name: "view"}); err != nil {
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
		running.Go(func() { v.stand(ctx) })
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
	case <-time.After(patience): // nobody reads the output
	}
	return err
}

// incomplete returns the error of a state that was interrupted: what failed last, if anything.
func (v *view) incomplete() error {
	text := "interrupted before the state was complete"
	for _, s := range v.unsynced() {
		if last := s.last.Load(); last != nil {
			if why := consequence(last, informer.Status{}); why != "" {
				text += fmt.Sprintf("; %s: %s", s.res, why)
			}
		}
	}
	return errors.New(text)
}

// unsynced returns the resources whose state is not complete.
func (v *view) unsynced() (all []*sight) {
	for _, s := range v.sights {
		select {
		case <-s.mirror.Synced():
		default:
			all = append(all, s)
		}
	}
	return all
}

// waiting says which lists have not come. What fails is said by follow.
func (v *view) waiting() string {
	var names []string
	for _, s := range v.unsynced() {
		names = append(names, s.res.String())
	}
	if len(names) == 0 {
		return ""
	}
	return "waiting for the list of " + strings.Join(names, ", ")
}

// once waits for all mirrors and prints what they hold. Its result is nil when all has
// been printed.
func (v *view) once(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, v.flags.timeout)
	defer cancel()
	var all []happening
	for _, s := range v.sights {
		if err := s.mirror.WaitSynced(waiting); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("after %v %s", v.flags.timeout, sentence(err))
		}
		snapshot := s.mirror.Snapshot()
		for obj := range snapshot.All() {
			key := object.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
			all = append(all, happening{res: s.res, key: key, kind: object.Added, initial: true, obj: obj})
		}
		snapshot.Release()
	}
	if len(all) == 0 {
		v.screen.say("there are no objects")
		return nil
	}
	return v.print(all)
}

// show prints changes, in the goroutine of a subscriber.
func (v *view) show(s *sight, events []informer.Event[*unstructured.Unstructured]) {
	all := make([]happening, 0, len(events))
	for _, ev := range events {
		if ev.Kind == object.Synced || ev.Initial && v.flags.watchOnly {
			continue
		}
		all = append(all, happened(s.res, ev))
	}
	if err := v.print(all); err != nil {
		v.fail(err)
	}
}

func (v *view) print(all []happening) error {
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
	if failed != nil && !v.flags.once { // one object does not end the view of the others
		v.screen.say("%v", failed)
		return nil
	}
	return failed
}
