package recorder

import (
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/tarnproject/tarn/wire"
)

// Object is an API object: a pointer to a struct with TypeMeta and ObjectMeta, or an
// unstructured object.
type Object interface {
	metav1.Object
	// GetObjectKind returns the object's apiVersion and kind, which may be empty.
	GetObjectKind() schema.ObjectKind
}

// Options change how a [Recorder] works. The zero Options work.
type Options struct {
	// Instance is the name of this process in its events, at most 128 bytes. Defaults to
	// the controller's name, "-" and the hostname.
	Instance string
	// Buffer is how many Events may wait to be created. Further ones are dropped. Defaults
	// to 1000.
	Buffer int
	// Grace is how long Run continues to send after its context is done. Defaults to
	// 5 seconds.
	Grace time.Duration
	// Logger receives a warning for each event that is invalid or could not be written, and
	// one for the first that the server forbids. Defaults to none.
	Logger *slog.Logger
}

func (o Options) withDefaults(controller string) Options {
	if o.Instance == "" {
		host, _ := os.Hostname() // without a hostname, the controller's name must do
		o.Instance = controller + "-" + host
	}
	o.Instance = truncate(o.Instance, maxInstance)
	if o.Buffer <= 0 {
		o.Buffer = 1000
	}
	if o.Grace <= 0 {
		o.Grace = 5 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Recorder records events. Create one with [New] and run it next to the controllers. Its
// methods are safe for concurrent use; only one Run at a time. The methods that record never
// block on the network and neither keep nor change the objects. What is recorded before Run
// waits for it.
type Recorder struct {
	api        *wire.API[*eventsv1.Event]
	controller string
	opts       Options
	seed       maphash.Seed
	running    atomic.Bool
	wake       chan struct{} // has an element if the queue has changed

	mu      sync.Mutex            // guards the rest
	series  *cache.LRUExpireCache // seriesKey to *series
	similar *cache.LRUExpireCache // similarKey to map[uint64]struct{}, hashes of notes
	limits  *cache.LRUExpireCache // limitKey to *rate.Limiter
	queue   queue                 // the series with something to send
	created uint64                // how many series there have been
	waiting int                   // how many of the queue are to be created
	status  Status
	warned  bool // that the server forbids events
}

// New returns a recorder of the events of a controller, whose name must be a qualified name
// such as "web" or "example.com/web".
func New(client *wire.Client, controller string, opts Options) *Recorder {
	return &Recorder{
		api: wire.For(client, wire.MustOf[*eventsv1.Event]()), controller: controller, opts: opts.withDefaults(controller),
		seed: maphash.MakeSeed(), wake: make(chan struct{}, 1),
		series: cache.NewLRUExpireCache(maxRemembered), similar: cache.NewLRUExpireCache(maxRemembered), limits: cache.NewLRUExpireCache(maxRemembered),
	}
}

// Normal records an event of type Normal. Reason is short and in UpperCamelCase, such as
// "Scaled"; it is also the event's action. Without args the note is used unchanged.
func (r *Recorder) Normal(regarding Object, reason, note string, args ...any) {
	r.record(regarding, nil, corev1.EventTypeNormal, reason, reason, format(note, args...))
}

// Warning records an event of type Warning, otherwise as Normal does.
func (r *Recorder) Warning(regarding Object, reason, note string, args ...any) {
	r.record(regarding, nil, corev1.EventTypeWarning, reason, reason, format(note, args...))
}

// Eventf records an event about an object and perhaps a related one. It makes a Recorder a
// client-go events.EventRecorder. eventtype is "Normal" or "Warning".
func (r *Recorder) Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any) {
	r.record(regarding, related, eventtype, reason, action, format(note, args...))
}

func format(note string, args ...any) string {
	if len(args) == 0 {
		return note
	}
	return fmt.Sprintf(note, args...)
}

func (r *Recorder) record(regarding, related any, eventtype, reason, action, note string) {
	o := occurrence{at: time.Now(), eventtype: eventtype, reason: reason, action: action, note: note}
	var err error
	if o.regarding, err = reference(regarding); err == nil && !isNil(related) {
		o.related, err = reference(related)
	}
	switch {
	case err != nil:
	case eventtype != corev1.EventTypeNormal && eventtype != corev1.EventTypeWarning:
		err = fmt.Errorf("the type is %q; want Normal or Warning", eventtype)
	case reason == "" || action == "":
		err = errors.New("reason and action must not be empty")
	}
	if err != nil {
		err = fmt.Errorf("recorder: event %s: %w", reason, err)
		r.opts.Logger.Warn("an event is invalid", "error", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.status.Dropped++
		r.status.LastError = err
		return
	}
	r.correlate(o)
}

// Status is a report on a recorder. It counts events as they were recorded, whether they became
// Events of their own or part of a series: all of them are Sent, Dropped, Failed or Pending.
type Status struct {
	// Sent counts the events that the server has.
	Sent uint64
	// Dropped counts the events that were not sent: they were invalid or above a limit, or
	// the process ended.
	Dropped uint64
	// Failed counts the events that the server rejected, or that were given up after
	// retries.
	Failed uint64
	// Pending is how many events are to be sent.
	Pending int
	// LastError is the error of the last invalid event or failed request; nil if there was
	// none.
	LastError error
}

// Status returns the current status. It is cheap.
func (r *Recorder) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}
