package tarn

import (
	"context"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire/stream"
)

// served is a source that detects when its resource is not served: that is the only reason
// for LIST and WATCH to return 404.
type served[T any] struct {
	source  *stream.Source[T]
	mirror  *shared
	noticed chan<- struct{}
}

// List implements reflector.Source.
func (s served[T]) List(ctx context.Context, opts object.ListOptions, in *object.Intake[T], sink func(object.Item[T]) error) (object.Page, error) {
	page, err := s.source.List(ctx, opts, in, sink)
	return page, s.note(err)
}

// Watch implements reflector.Source.
func (s served[T]) Watch(ctx context.Context, opts object.WatchOptions, in *object.Intake[T]) (object.Stream[T], error) {
	stream, err := s.source.Watch(ctx, opts, in)
	return stream, s.note(err)
}

func (s served[T]) note(err error) error {
	switch {
	case err == nil:
		s.mirror.missing.Store(false)
	case apierrors.IsNotFound(err):
		s.mirror.missing.Store(true)
		select {
		case s.noticed <- struct{}{}:
		default:
		}
		return &NotServedError{Resource: s.source.Resource(), Err: err}
	}
	return err
}

// awaitServed wakes mirrors when their missing resource is served. Without it they would
// recover later, because their back-off grows to a minute.
func (c *Cluster) awaitServed(ctx context.Context) {
	for {
		select {
		case <-c.noticed:
		case <-ctx.Done():
			return
		}
		for c.askServed(ctx) {
			timer := time.NewTimer(c.opts.tuning.ServedEvery)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return
			}
		}
	}
}

// maxNudges limits how often a mirror is woken after discovery lists its resource: a server
// may list a resource shortly before it serves it. If requests still return 404 after that,
// the mirror backs off as after any other failure.
const maxNudges = 5

// askServed checks which missing resources the server lists, wakes their mirrors, and reports
// whether any was missing.
func (c *Cluster) askServed(ctx context.Context) bool {
	type question struct{ path, resource string }
	answers := map[question]bool{}
	missing := false
	for _, m := range c.declared() {
		if !m.missing.Load() {
			continue
		}
		missing = true
		q := question{pathOf(m.id.resource), m.id.resource.Resource}
		if _, asked := answers[q]; !asked {
			answers[q] = c.serves(ctx, q.path, q.resource)
		}
		switch {
		case !answers[q]:
			m.nudges = maxNudges
		case m.nudges > 0:
			m.nudges--
			m.inf.Wake()
		}
	}
	return missing
}

func pathOf(res object.Resource) string {
	if res.Group == "" {
		return "/api/" + res.Version
	}
	return "/apis/" + res.Group + "/" + res.Version
}

// serves reads the resources of one group and version only, which is a small response.
func (c *Cluster) serves(ctx context.Context, path, resource string) bool {
	result, err := c.client.Request(http.MethodGet).AbsPath(path).Accept("application/json").Retries(0).Do(ctx)
	if err != nil {
		return false // the mirror's own requests report the cause
	}
	var list metav1.APIResourceList
	if result.Into(&list) != nil {
		return false
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource })
}
