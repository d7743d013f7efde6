package recorder_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/controller/recorder"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	_ controller.Runner    = (*recorder.Recorder)(nil)
	_ events.EventRecorder = (*recorder.Recorder)(nil)
)

// rig is a recorder and the embedded API server that it writes to.
type rig struct {
	*recorder.Recorder
	t      *testing.T
	server *apiserver.Server
	stop   func() // ends Run and waits for it

	mu       sync.Mutex
	requests []string // methods
}

// newRig returns a recorder that does not run.
func newRig(t *testing.T, opts recorder.Options) *rig {
	t.Helper()
	r := &rig{t: t, server: apiserver.Start(t, apiserver.Options{})}
	config := r.server.MemoryConfig()
	config.Transport = transport{config.Transport, r}
	client, err := wire.New(config, wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.Recorder = recorder.New(client, "web", opts)
	return r
}

// start returns a recorder that runs.
func start(t *testing.T, opts recorder.Options) *rig {
	t.Helper()
	r := newRig(t, opts)
	r.start()
	return r
}

func (r *rig) start() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
	})
	r.t.Cleanup(r.stop)
}

// transport counts requests.
type transport struct {
	http.RoundTripper
	r *rig
}

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	t.r.mu.Lock()
	t.r.requests = append(t.r.requests, req.Method)
	t.r.mu.Unlock()
	return t.RoundTripper.RoundTrip(req)
}

// sent returns the methods of the requests since the last call.
func (r *rig) sent() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := strings.Join(r.requests, " ")
	r.requests = nil
	return all
}

// events returns the Events of all namespaces, oldest first.
func (r *rig) events() []*eventsv1.Event {
	r.t.Helper()
	client, err := wire.New(r.server.MemoryConfig(), wire.Options{})
	if err != nil {
		r.t.Fatal(err)
	}
	list, _, err := stream.List(context.Background(), wire.For(client, wire.MustOf[*eventsv1.Event]()), object.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	slices.SortStableFunc(list, func(a, b *eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	return list
}

// counts returns how often each note has occurred, by the server.
func (r *rig) counts() map[string]int {
	r.t.Helper()
	out := map[string]int{}
	for _, e := range r.events() {
		out[e.Note] += occurrences(e)
	}
	return out
}

func occurrences(e *eventsv1.Event) int {
	if e.Series == nil {
		return 1
	}
	return int(e.Series.Count)
}

func (r *rig) inject(f apiserver.Fault) (remove func()) {
	r.t.Helper()
	remove, err := r.server.Inject(f)
	if err != nil {
		r.t.Fatal(err)
	}
	return remove
}

// want compares the counters of the status.
func (r *rig) want(sent, dropped, failed uint64, pending int) {
	r.t.Helper()
	if s := r.Status(); s.Sent != sent || s.Dropped != dropped || s.Failed != failed || s.Pending != pending {
		r.t.Errorf("sent %d, dropped %d, failed %d, pending %d (%v); want %d, %d, %d, %d",
			s.Sent, s.Dropped, s.Failed, s.Pending, s.LastError, sent, dropped, failed, pending)
	}
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u-1", ResourceVersion: "7"}}
}

const grace = 5 * time.Second // the default
