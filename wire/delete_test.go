package wire

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire/internal/wiretest"
)

func TestDeleteSendsItsPreconditions(t *testing.T) {
	c, last := oneResponse(t, typeJSON, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
	pods := For(c, MustOf[*corev1.Pod]())
	grace := 1500 * time.Millisecond
	if err := pods.Delete(t.Context(), webKey, DeleteOptions{UID: "u-1", Version: "7", Propagation: Foreground, GracePeriod: &grace, DryRun: true}); err != nil {
		t.Fatal(err)
	}
	uid, version, seconds, foreground := webPod().UID, "7", int64(2), metav1.DeletePropagationForeground
	want := &metav1.DeleteOptions{
		TypeMeta:      metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"},
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
		DryRun:        []string{"All"}, PropagationPolicy: &foreground, GracePeriodSeconds: &seconds,
	}
	if diff := cmp.Diff(want, last.decode(t)); diff != "" || last.method != "DELETE" || last.path != "/api/v1/namespaces/shop/pods/web" {
		t.Errorf("%s %s: %s", last.method, last.path, diff)
	}
	if err := pods.Delete(t.Context(), webKey, DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&metav1.DeleteOptions{TypeMeta: want.TypeMeta}, last.decode(t)); diff != "" {
		t.Errorf("the zero options: %s", diff)
	}
	if err := pods.DeleteCollection(t.Context(), object.Selection{Namespace: "shop", Labels: "app=web", Fields: "spec.nodeName=n"}, DeleteOptions{Propagation: Orphan}); err != nil {
		t.Fatal(err)
	}
	if last.path != "/api/v1/namespaces/shop/pods" || last.query.Encode() != "fieldSelector=spec.nodeName%3Dn&labelSelector=app%3Dweb" {
		t.Errorf("the collection is deleted at %s?%s", last.path, last.query.Encode())
	}
	minus := -time.Second
	for want, err := range map[string]error{
		"negative":          pods.Delete(t.Context(), webKey, DeleteOptions{GracePeriod: &minus}),
		"set the namespace": pods.DeleteCollection(t.Context(), object.Selection{}, DeleteOptions{}),
		"takes no UID":      pods.DeleteCollection(t.Context(), object.Selection{Namespace: "shop"}, DeleteOptions{UID: "u"}),
		"name of the ":      pods.Delete(t.Context(), object.Key{Namespace: "shop"}, DeleteOptions{}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q in it", err, want)
		}
	}
}

func TestWhichWritesAreRetriedAfterAReset(t *testing.T) {
	pod := webPod()
	for name, c := range map[string]struct {
		again bool
		call  func(context.Context, *API[*corev1.Pod]) error
	}{
		"update": {true, func(ctx context.Context, a *API[*corev1.Pod]) error {
			_, err := a.Update(ctx, pod, WriteOptions{})
			return err
		}},
		"create": {false, func(ctx context.Context, a *API[*corev1.Pod]) error {
			_, err := a.Create(ctx, pod, WriteOptions{})
			return err
		}},
		"delete": {false, func(ctx context.Context, a *API[*corev1.Pod]) error { return a.Delete(ctx, webKey, DeleteOptions{}) }},
		"delete with a precondition": {true, func(ctx context.Context, a *API[*corev1.Pod]) error {
			return a.Delete(ctx, webKey, DeleteOptions{UID: "u-1"})
		}},
		"merge patch": {false, func(ctx context.Context, a *API[*corev1.Pod]) error {
			_, err := a.Patch(ctx, webKey, MergePatch([]byte("{}")), WriteOptions{})
			return err
		}},
		"server-side apply": {true, func(ctx context.Context, a *API[*corev1.Pod]) error {
			_, err := a.Apply(ctx, webKey, pod, WriteOptions{FieldManager: "me"})
			return err
		}},
		"delete of a whole namespace": {false, func(ctx context.Context, a *API[*corev1.Pod]) error {
			return a.DeleteCollection(ctx, object.Selection{Namespace: "shop"}, DeleteOptions{})
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			attempts := 0
			client := inMemory(t, Options{}, func(r *http.Request) (*http.Response, error) {
				if attempts++; attempts == 1 {
					return nil, reset
				}
				return wiretest.Response(r, 200, string(wiretest.Encode(typeJSON, pod))), nil
			})
			err := c.call(t.Context(), For(client, MustOf[*corev1.Pod]()))
			if c.again != (err == nil) || c.again != (attempts == 2) {
				t.Errorf("%s: %d attempts, %v", name, attempts, err)
			}
		})
	}
}

func TestDeleteReturningReadsStatusAndObject(t *testing.T) {
	for body, want := range map[string]object.Deletion{
		`{"kind":"Status","apiVersion":"v1","status":"Success","details":{"name":"web","uid":"u1"}}`:                                             {UID: "u1"},
		`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web","uid":"u2","resourceVersion":"7","deletionTimestamp":"2026-01-02T03:04:05Z"}}`: {UID: "u2", Version: "7"},
		`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web","uid":"u3","resourceVersion":"7"}}`:                                            {UID: "u3"}, // deleted; 7 may be before that
		`{"kind":"Status","apiVersion":"v1","status":"Success"}`:                                                                                 {},
		`not JSON`: {},
	} {
		c, _ := oneResponse(t, typeJSON, body)
		answer, err := For(c, MustOf[*corev1.Pod]()).DeleteReturning(t.Context(), webKey, DeleteOptions{})
		if answer != want || err != nil {
			t.Errorf("%s: %+v, %v; want %+v", body, answer, err, want)
		}
	}
}
