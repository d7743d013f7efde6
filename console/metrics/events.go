package metrics

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/workqueue"
)

// Reconcile is a [controller.Observer] that counts and times the reconciles of any number of
// controllers.
func (x *Exporter) Reconcile(ctx context.Context, start controller.ReconcileStart) (context.Context, func(controller.ReconcileEnd)) {
	return ctx, func(end controller.ReconcileEnd) {
		s, result := x.vectors.controller(start.Controller), end.Outcome
		if result.Failure() {
			result = controller.OutcomeError
			s.errors.Inc()
		}
		switch end.Outcome {
		case controller.OutcomeTerminal:
			s.terminal.Inc()
		case controller.OutcomePanic:
			s.panics.Inc()
		}
		if counter := s.results[result]; counter != nil {
			counter.Inc()
		} else { // not an outcome of package controller
			x.vectors.reconciles.WithLabelValues(start.Controller, string(result)).Inc()
		}
		s.time.Observe(end.Duration.Seconds())
	}
}

// Request is a [wire.Observer] that counts and times the requests of any number of clients.
func (x *Exporter) Request(ctx context.Context, start wire.AttemptStart) (context.Context, func(wire.AttemptEnd)) {
	return ctx, func(end wire.AttemptEnd) {
		code := "<error>" // as in client-go
		if end.Code != 0 {
			code = strconv.Itoa(end.Code)
		}
		x.vectors.requests.WithLabelValues(code, start.Method, start.Host).Inc()
		if start.Call.Verb != string(wire.VerbWatch) {
			x.vectors.requestTime.WithLabelValues(start.Method, start.Host).Observe(end.Duration.Seconds())
		}
	}
}

// Queue returns the counters of the queue with this name, for the Metrics of its Options. Later
// calls with the same name return the same counters. The queue of a controller has the
// controller's name.
func (x *Exporter) Queue(name string) workqueue.Metrics {
	v := x.vectors
	return &queueSeries{
		adds: v.adds.WithLabelValues(name, name), retries: v.retries.WithLabelValues(name, name), dropped: v.dropped.WithLabelValues(name, name),
		waited: v.waited.WithLabelValues(name, name), worked: v.worked.WithLabelValues(name, name),
	}
}

// Forget deletes the counters and durations of a controller and its queue, or of another queue.
// It is for names that are not used again.
func (x *Exporter) Forget(name string) { x.vectors.forget(name) }

// queueSeries implements [workqueue.Metrics] for one queue.
type queueSeries struct {
	adds, retries, dropped prometheus.Counter
	waited, worked         prometheus.Observer
}

func (s *queueSeries) Added(n int)            { s.adds.Add(float64(n)) }
func (s *queueSeries) Retried(n int)          { s.retries.Add(float64(n)) }
func (s *queueSeries) Dropped(n int)          { s.dropped.Add(float64(n)) }
func (s *queueSeries) Waited(d time.Duration) { s.waited.Observe(d.Seconds()) }
func (s *queueSeries) Worked(d time.Duration) { s.worked.Observe(d.Seconds()) }

// Leadership returns l with its status exported: 1 while this process leads and its fence is
// open. The name is that of the lease.
func (x *Exporter) Leadership(name string, l controller.Leadership) controller.Leadership {
	x.setLeader(name, nil)
	return &leadership{l, x, name}
}

func (x *Exporter) setLeader(name string, f controller.Fence) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.leaders[name] = f
}

type leadership struct {
	controller.Leadership
	x    *Exporter
	name string
}

// Run implements [controller.Leadership].
func (l *leadership) Run(ctx context.Context, lead func(context.Context, controller.Fence) error) error {
	return l.Leadership.Run(ctx, func(ctx context.Context, f controller.Fence) error {
		l.x.setLeader(l.name, f)
		defer l.x.setLeader(l.name, nil)
		return lead(ctx, f)
	})
}
