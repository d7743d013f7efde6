package tarn

import (
	"context"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// served is a source that notices when its resource is not served: LIST and WATCH answer
// 404 for nothing else.
type served[T any] struct {
	source  *wire.Source[T]
	mirror  *mirror
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

// awaitServed wakes mirrors whose resource was not served when it is. Without it they
// would come back by themselves, but later: their back-off grows to a minute.
func (c *Cluster) awaitServed(ctx context.Context) {
	for {
		select {
		case <-c.noticed:
		case <-ctx.Done():
			return
		}
		for c.askServed(ctx) {
			timer := time.NewTimer(c.opts.ServedEvery)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return
			}
		}
	}
}

// maxNudges is how often a mirror is woken after its resource has appeared: a server may
// name a resource a little before it serves it. One that is named and answers 404 all the
// same backs off as after any other failure.
const maxNudges = 5

// askServed asks the server for what is missing, wakes the mirrors of what is there, and
// reports whether any had been missing.
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

// serves asks for the resources of one group and version, which is a small answer.
func (c *Cluster) serves(ctx context.Context, path, resource string) bool {
	result, err := c.client.Request(http.MethodGet).AbsPath(path).Accept("application/json").Retries(0).Do(ctx)
	if err != nil {
		return false // the mirrors' own requests tell why
	}
	var list metav1.APIResourceList
	if result.Into(&list) != nil {
		return false
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource })
}
