package controller_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/internal/sim/simtest"
)

func TestR04_APanicIsAPanicWhateverItsValueWraps(t *testing.T) {
	for name, value := range map[string]any{
		"conflict":    apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "web", nil),
		"stale cache": fmt.Errorf("reading: %w", controller.ErrStaleCache),
		"not leading": controller.ErrNotLeading,
		"joined":      errors.Join(controller.ErrNotLeading, controller.ErrStaleCache),
		"terminal":    controller.Terminal(errOops),
		"text":        "oops",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				n := 0
				c, keys := one(t, func(context.Context, string) (result, error) {
					n++
					panic(value)
				}, controller.Options[string]{Attempts: 3, Logger: slog.New(slog.NewTextHandler(&log, nil))})
				start(t, c)
				keys <- "k"
				simtest.Advance(time.Minute)
				s := c.Status()
				simtest.Want(t, "reconciles", n, 3)
				simtest.Want(t, "reconciles, panics, failures, given up", []uint64{s.Reconciles, s.Panicked, s.Failed, s.GivenUp}, []uint64{3, 3, 3, 1})
				simtest.Want(t, "stacks in the log", bytes.Count(log.Bytes(), []byte("stack=")), 3)
			})
		})
	}
}

func TestR04_APanicWithCanceledAfterGraceIsAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, keys := one(t, func(ctx context.Context, _ string) (result, error) {
			<-ctx.Done()
			panic(ctx.Err())
		}, controller.Options[string]{Grace: time.Second})
		stop := start(t, c)
		keys <- "k"
		synctest.Wait()
		_ = stop()
		simtest.Want(t, "panics", c.Status().Panicked, 1)
	})
}

func TestR05_AFieldManagerConflictIsAnError(t *testing.T) {
	conflict := apierrors.NewApplyConflict([]metav1.StatusCause{{
		Type: metav1.CauseTypeFieldManagerConflict, Field: ".spec.replicas", Message: `conflict with "kubectl"`,
	}}, "Apply failed with 1 conflict")
	lock := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "web", nil)
	for name, err := range map[string]error{
		"bare":                    conflict,
		"wrapped":                 fmt.Errorf("applying: %w", conflict),
		"beside a lock's":         errors.Join(lock, conflict),
		"after a stale cache":     errors.Join(controller.ErrStaleCache, conflict),
		"wrapped and then joined": fmt.Errorf("all: %w", errors.Join(fmt.Errorf("one: %w", conflict))),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				c, keys := one(t, func(context.Context, string) (result, error) {
					n++
					return result{}, err
				}, controller.Options[string]{Attempts: 3})
				start(t, c)
				keys <- "k"
				simtest.Advance(time.Minute)
				s := c.Status()
				simtest.Want(t, "reconciles", n, 3)
				simtest.Want(t, "failed, given up, conflicts", []uint64{s.Failed, s.GivenUp, s.Conflicts}, []uint64{3, 1, 0})
				if len(s.Failures) != 1 || !errors.Is(s.Failures[0].Err, conflict) {
					t.Errorf("%+v", s.Failures)
				}
			})
		})
	}
}
