package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarnproject/tarn/controller"
)

// What is read from a controller's Status.
var (
	controllerDescs []*prometheus.Desc
	controllerDesc  = family(&controllerDescs)

	controllerReconciles = controllerDesc("tarn_controller_reconciles_total", "Reconciles that returned, by the result.", "controller", "result")
	controllerDuration   = controllerDesc("tarn_controller_reconcile_duration_seconds", "How long reconciles took, over the controller's life; quantiles to within a factor of 2, 1 is the longest.", "controller")
	controllerActive     = controllerDesc("tarn_controller_active_workers", "Workers that reconcile.", "controller")
	controllerState      = controllerDesc("tarn_controller_state", "1 for the state in which the controller is, 0 for the others.", "controller", "state")
	controllerFenced     = controllerDesc("tarn_controller_fenced", "1 if no reconcile may begin, because this process does not lead.", "controller")
	controllerFailing    = controllerDesc("tarn_controller_failing_keys", "Keys that failed and have not been reconciled since, as far as they are remembered.", "controller")
	controllerPanics     = controllerDesc("tarn_controller_panics_total", "Reconciles that panicked; they are among the errors too.", "controller")
	controllerGivenUp    = controllerDesc("tarn_controller_given_up_total", "Reconciles after which the key was not tried again; they are among the errors too.", "controller")
	controllerHeld       = controllerDesc("tarn_controller_held_total", "Times that a key was put back because a cache was older than what was written.", "controller")
	controllerSource     = controllerDesc("tarn_controller_source_failures_total", "What sources could not turn into keys.", "controller")
)

var controllerStates = []controller.State{
	controller.Idle, controller.Starting, controller.Working, controller.Draining, controller.Cancelled,
}

// tally is a controller with the figures last exported for it. Successes are what remains of the
// reconciles when all others are subtracted; the figures are read one after the other
// while the controller works, so the remainder could fall for a moment, which Prometheus
// would take for a restart.
type tally struct {
	Controller
	mu   sync.Mutex // guards done
	done uint64
}

func (t *tally) succeeded(s controller.Status) float64 {
	others := s.Failed + s.Conflicts + s.Requeued + s.Stale
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.Reconciles > others {
		t.done = max(t.done, s.Reconciles-others)
	}
	return float64(t.done)
}

func (t *tally) collect(to chan<- prometheus.Metric) {
	name, s := t.Name(), t.Status()
	counter(to, controllerReconciles, t.succeeded(s), name, "success")
	counter(to, controllerReconciles, float64(s.Failed), name, "error")
	counter(to, controllerReconciles, float64(s.Conflicts), name, "conflict")
	counter(to, controllerReconciles, float64(s.Requeued), name, "requeue")
	counter(to, controllerReconciles, float64(s.Stale), name, "stale")
	l := s.Latency
	to <- prometheus.MustNewConstSummary(controllerDuration, l.Count, l.Mean.Seconds()*float64(l.Count), map[float64]float64{
		0.5: l.Median.Seconds(), 0.99: l.Most99.Seconds(), 1: l.Max.Seconds(),
	}, name)
	gauge(to, controllerActive, float64(len(s.Running)), name)
	for _, state := range controllerStates {
		gauge(to, controllerState, flag(s.State == state), name, state.String())
	}
	gauge(to, controllerFenced, flag(s.Fenced != nil), name)
	gauge(to, controllerFailing, float64(len(s.Failures)), name)
	counter(to, controllerPanics, float64(s.Panicked), name)
	counter(to, controllerGivenUp, float64(s.GivenUp), name)
	counter(to, controllerHeld, float64(s.Held), name)
	counter(to, controllerSource, float64(s.SourceFailures), name)
}
