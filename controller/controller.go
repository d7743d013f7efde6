package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// Func reconciles one key: it reads the current state and changes it towards the desired
// one. Several workers call it concurrently, but never for the same key. It should return
// when its context is done.
type Func[K comparable] func(ctx context.Context, key K) (Result, error)

// Controller reconciles the keys of its sources. Create one with [New].
//
// Guarantees while it runs:
//
//   - A key is reconciled after each change that a source reports, and by one worker at a
//     time. Changes that arrive while a key waits are coalesced.
//   - Failed keys are retried with back-off, as Options define.
//   - No reconcile starts while the fence is closed, or while a cache lacks writes of earlier
//     reconciles of the key.
//   - Run returns when all goroutines have ended, except those of reconciles that ignore
//     their context; the error names them.
//
// All methods are safe for concurrent use. Run may be called again after it has returned;
// only counters are kept between runs. Rejected: one queue for all runs that is also filled
// while another process leads. It would grow with every deleted object.
type Controller[K comparable] struct {
	name      string
	reconcile Func[K]
	opts      Options[K]
	sources   []Source[K]
	observe   Observer       // nil: none
	group     func(K) string // Queue.Group as the program set it

	counts   counts
	latency  histogram
	failures failures[K]
	recent   recent[K]
	gate     gate // shut while the controller is paused
	// lastPanic is the last one of a function other than the reconcile.
	lastPanic atomic.Pointer[PanicError]

	mu   sync.Mutex // guards all below
	run  *run[K]    // nil while the controller does not run
	left []K        // keys that were left when the last run ended
	err  error      // of the last run
	// changed is closed, and replaced, when a run starts or ends.
	changed chan struct{}
}

// New returns a controller. The name appears in errors, logs and Status.
func New[K comparable](name string, reconcile Func[K], opts Options[K], sources ...Source[K]) (*Controller[K], error) {
	switch {
	case name == "":
		return nil, errors.New("controller: no name")
	case reconcile == nil:
		return nil, fmt.Errorf("controller %s: no reconcile function", name)
	case len(sources) == 0 && opts.Queue.Group == nil:
		return nil, fmt.Errorf("controller %s: no sources; use controller.For(informer), or set Queue.Group and attach them", name)
	}
	if err := checkSources(name, sources); err != nil {
		return nil, err
	}
	if err := opts.validate(); err != nil {
		return nil, err
	}
	c := &Controller[K]{name: name, reconcile: reconcile, opts: opts.withDefaults(), sources: sources, changed: make(chan struct{})}
	c.opts.Logger = c.opts.Logger.With("controller", name)
	c.observe = Observers(c.opts.Observers...)
	if c.group = opts.Queue.Group; c.group != nil {
		c.opts.Queue.Group = func(key K) string {
			name, err := c.groupOf(key)
			if err != nil {
				c.report(err, functionPanicked)
			}
			return name
		}
	}
	c.opts.Queue.OnPanic = func(option string, value any) {
		c.report(newPanicError(name, "Queue."+option, "", value), functionPanicked)
		if opts.Queue.OnPanic != nil {
			opts.Queue.OnPanic(option, value)
		}
	}
	c.failures.limit = c.opts.Errors
	c.recent.ring = make([]reconciled[K], max(0, c.opts.Recent))
	return c, nil
}

// noGroup is the group of keys for which Queue.Group panics. No process claims it.
const noGroup = "\x00"

// groupOf calls Queue.Group.
func (c *Controller[K]) groupOf(key K) (name string, err error) {
	defer func() {
		if p := recover(); p != nil {
			name, err = noGroup, newPanicError(c.name, "Queue.Group", fmt.Sprintf(" of %v", key), p)
		}
	}()
	return c.group(key), nil
}

const functionPanicked = "a function of the program panicked"

// report logs an error, and counts it if it is a panic.
func (c *Controller[K]) report(err error, message string, attrs ...any) {
	attrs = append(attrs, "error", err)
	if p := (*PanicError)(nil); errors.As(err, &p) {
		c.counts.functions.Add(1)
		c.lastPanic.Store(p)
		attrs = append(attrs, "stack", string(p.Stack))
	}
	defer func() { _ = recover() }() // the logger itself may be what panics
	c.opts.Logger.Error(message, attrs...)
}

// warn logs a warning.
func (c *Controller[K]) warn(message string, attrs ...any) {
	defer func() { _ = recover() }()
	c.opts.Logger.Warn(message, attrs...)
}

// guard calls a function of the program for a key, and reports its panic; ok is true if there was none.
func (c *Controller[K]) guard(function string, key K, f func()) (ok bool) {
	defer func() {
		if p := recover(); p != nil {
			e, ok := p.(*PanicError)
			if !ok {
				e = newPanicError(c.name, function, fmt.Sprintf(" of %v", key), p)
			}
			c.report(e, functionPanicked)
		}
	}()
	f()
	return true
}

func checkSources[K comparable](controller string, sources []Source[K]) error {
	for i := range sources {
		if sources[i].Run == nil {
			return fmt.Errorf("controller %s: source %q has no Run function", controller, sources[i].Name)
		}
	}
	return nil
}

// Name returns the controller's name.
func (c *Controller[K]) Name() string { return c.name }

func (c *Controller[K]) stopsFirst() {}

// Run reconciles until the context is done, and then shuts down as described for
// Options.Grace. The error is that of a source; or that the sources were not ready in time,
// with causes; a [*UnfinishedError] if a reconcile did not finish within the grace period; or that
// the controller already runs, or a reconcile of an earlier Run has not returned. Keys that were still waiting are no error, because the next run or the next
// leader starts with the complete state. They are logged and listed by Status.
func (c *Controller[K]) Run(ctx context.Context) error {
	c.mu.Lock()
	if c.run != nil {
		c.mu.Unlock()
		return fmt.Errorf("controller %s: already running", c.name)
	}
	r := newRun(ctx, c)
	c.left, c.err = nil, nil
	c.failures.clear()
	c.setRun(r)
	c.mu.Unlock()

	stuck, err := r.live()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	if !stuck {
		c.setRun(nil)
	}
	return err
}

// setRun sets the current run and notifies Attach. The caller holds the lock.
func (c *Controller[K]) setRun(r *run[K]) {
	c.run = r
	close(c.changed)
	c.changed = make(chan struct{})
}
