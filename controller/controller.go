package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/time/rate"

	"github.com/tarnproject/tarn/workqueue"
)

// Func reconciles one key: it looks at what is so now and does what has to be done. It
// is called by several workers at a time, but for one key only once at a time. It should
// heed its context.
type Func[K comparable] func(ctx context.Context, key K) (Result, error)

// Controller has workers reconcile the keys of its sources. Make one with [New].
//
// What it guarantees, while it runs:
//
//   - A key is reconciled after each change that a source told of, and not by two workers
//     at a time. Changes that come while it waits are one.
//   - What failed is tried again, later and later, as Options say.
//   - No reconcile begins while the fence is closed, or while a mirror lacks what earlier
//     reconciles of the key wrote.
//   - Run returns when all goroutines have ended, except those of reconciles that do not
//     heed their context; these it names.
//
// All methods may be called from any goroutine. Run may be called again after it has
// returned; nothing but figures is kept from one run to the next. Rejected: one queue
// for the whole life, filled also while another process leads. It would grow with every
// object that is ever deleted.
type Controller[K comparable] struct {
	name      string
	reconcile Func[K]
	opts      Options[K]
	sources   []Source[K]

	counts   counts
	latency  histogram
	failures failures[K]

	mu   sync.Mutex // guards all below
	run  *run[K]    // nil while it does not
	left []K        // when the last run ended
}

// New makes a controller. The name is for people: it is in errors, logs and Status.
func New[K comparable](name string, reconcile Func[K], opts Options[K], sources ...Source[K]) (*Controller[K], error) {
	switch {
	case name == "":
		return nil, errors.New("controller: no name")
	case reconcile == nil:
		return nil, fmt.Errorf("controller %s: no reconcile function", name)
	case len(sources) == 0:
		return nil, fmt.Errorf("controller %s: no sources; controller.For makes one of an informer", name)
	}
	for i := range sources {
		if sources[i].Run == nil {
			return nil, fmt.Errorf("controller %s: source %q has no Run function", name, sources[i].Name)
		}
	}
	if err := opts.validate(); err != nil {
		return nil, err
	}
	c := &Controller[K]{name: name, reconcile: reconcile, opts: opts.withDefaults(), sources: sources}
	c.opts.Logger = c.opts.Logger.With("controller", name)
	c.failures.limit = c.opts.Errors
	return c, nil
}

// Name returns the controller's name.
func (c *Controller[K]) Name() string { return c.name }

func (c *Controller[K]) stopsFirst() {}

// Run reconciles until the context is done, and then ends as Options.Grace says. The
// errors are that of a source, or that the sources were not ready in time, with causes;
// a [*LeftError] if a reconcile did not finish within the grace period; and [ErrRunning].
// Keys that were waiting when Run was to end are no error: the next run, or the next
// leader, begins with the whole state. They are logged, and listed by Status.
func (c *Controller[K]) Run(ctx context.Context) error {
	r := &run[K]{c: c, fence: fenceOf(ctx), queue: workqueue.New(c.opts.Queue), workers: make([]worker[K], c.opts.Workers)}
	if c.opts.Rate > 0 {
		r.rate = rate.NewLimiter(rate.Limit(c.opts.Rate), c.opts.Burst)
	}
	if r.fence != nil {
		r.lost = r.fence.Lost()
	}
	c.mu.Lock()
	if c.run != nil {
		c.mu.Unlock()
		return fmt.Errorf("controller %s: %w", c.name, ErrRunning)
	}
	c.run, c.left = r, nil
	c.mu.Unlock()

	stuck, err := r.live(ctx)
	if !stuck {
		c.mu.Lock()
		c.run = nil
		c.mu.Unlock()
	}
	return err
}
