package wire

import (
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire/internal/wiretest"
)

func TestScaleIsReadAndWritten(t *testing.T) {
	scale := &autoscalingv1.Scale{
		TypeMeta:   metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       autoscalingv1.ScaleSpec{Replicas: 3},
	}
	bareScale := scale.DeepCopy()
	bareScale.TypeMeta = metav1.TypeMeta{}
	for _, e := range []Encoding{Protobuf, JSON} {
		contentType := map[Encoding]string{Protobuf: typeProtobuf, JSON: typeJSON}[e]
		c, last := oneResponse(t, contentType, string(wiretest.Encode(contentType, scale)))
		scales := SubresourceOf[*autoscalingv1.Scale](For(c, MustOf[*appsv1.Deployment]().Encoded(e)), "scale")
		got, err := scales.Get(t.Context(), webKey, GetOptions{Version: "0"})
		if err != nil || !cmp.Equal(got, bareScale) {
			t.Errorf("%s: got %+v, %v", e, got, err)
		}
		if last.path != "/apis/apps/v1/namespaces/shop/deployments/web/scale" || last.query.Get("resourceVersion") != "0" {
			t.Errorf("%s: asked for %s", e, last.path)
		}
		if _, err := scales.Update(t.Context(), webKey, bareScale, WriteOptions{FieldManager: "me"}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(scale, last.decode(t)); diff != "" || last.method != "PUT" || last.query.Get("fieldManager") != "me" || last.header.Get("Content-Type") != contentType {
			t.Errorf("%s: %s", e, diff)
		}
		if _, err := scales.Patch(t.Context(), webKey, MergePatchOf(map[string]any{"spec": map[string]any{"replicas": 4}}), WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		if string(last.body) != `{"spec":{"replicas":4}}` || last.method != "PATCH" {
			t.Errorf("%s: patched by %s %s", e, last.method, last.body)
		}
	}
}

func TestEvictionBindingAndTokenAreCreated(t *testing.T) {
	c, last := oneResponse(t, typeJSON, `{"kind":"Status","apiVersion":"v1","status":"Success","code":201}`)
	pods := For(c, MustOf[*corev1.Pod]())
	got, err := SubresourceOf[*policyv1.Eviction](pods, "eviction").Create(t.Context(), webKey, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"}}, WriteOptions{DryRun: true})
	if err != nil || got != nil {
		t.Errorf("evicted: %v, %v", got, err)
	}
	if e, ok := last.decode(t).(*policyv1.Eviction); !ok || e.Name != "web" || last.path != "/api/v1/namespaces/shop/pods/web/eviction" || last.query.Get("dryRun") != "All" {
		t.Errorf("sent %T to %s?%s", last.decode(t), last.path, last.query.Encode())
	}
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "node-1"}}
	if _, err := SubresourceOf[*corev1.Binding](pods, "binding").Create(t.Context(), webKey, binding, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if b, ok := last.decode(t).(*corev1.Binding); !ok || b.Target.Name != "node-1" {
		t.Errorf("sent %T", last.decode(t))
	}
	token := &authenticationv1.TokenRequest{TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenRequest"}, Status: authenticationv1.TokenRequestStatus{Token: "t"}}
	c, _ = oneResponse(t, typeProtobuf, string(wiretest.Encode(typeProtobuf, token)))
	made, err := SubresourceOf[*authenticationv1.TokenRequest](For(c, MustOf[*corev1.ServiceAccount]()), "token").Create(t.Context(), webKey, &authenticationv1.TokenRequest{}, WriteOptions{})
	if err != nil || made.Status.Token != "t" {
		t.Errorf("made %v, %v", made, err)
	}
}

func TestAnEvictionAgainstTheBudgetIsNotRetried(t *testing.T) {
	attempts := 0
	c := inMemory(t, Options{}, func(r *http.Request) (*http.Response, error) {
		attempts++
		return wiretest.Response(r, 429, budget, "Retry-After", "10"), nil
	})
	_, err := SubresourceOf[*policyv1.Eviction](For(c, MustOf[*corev1.Pod]()), "eviction").Create(t.Context(), webKey, &policyv1.Eviction{}, WriteOptions{})
	if !apierrors.IsTooManyRequests(err) || !apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) || attempts != 1 {
		t.Errorf("after %d attempts: %v", attempts, err)
	}
}

func TestSubresourcesOfOtherTypesNeedTheirKind(t *testing.T) {
	const answered = `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"desk"},"spec":{"replicas":2}}`
	c, last := oneResponse(t, typeJSON, answered)
	lamps := For(c, Custom[*Lamp](lampResource))
	scales := SubresourceOf[*unstructured.Unstructured](lamps, "scale")
	u, err := scales.Get(t.Context(), object.Key{Namespace: "home", Name: "desk"}, GetOptions{})
	if err != nil || u.GetKind() != "Scale" {
		t.Fatalf("got %v, %v", u, err)
	}
	if _, err := scales.Update(t.Context(), object.Key{Namespace: "home", Name: "desk"}, u, WriteOptions{}); err != nil || !strings.Contains(string(last.body), `"kind":"Scale"`) {
		t.Errorf("sent %s, %v", last.body, err)
	}
	status := SubresourceOf[*Lamp](lamps, "status")
	if _, err := status.Get(t.Context(), object.Key{Namespace: "home", Name: "desk"}, GetOptions{}); !errors.Is(err, object.ErrWrongKind) {
		t.Errorf("another kind is accepted: %v", err)
	}
}

func TestInvalidSubresourceRequestsAreNotSent(t *testing.T) {
	c := inMemory(t, Options{}, func(r *http.Request) (*http.Response, error) {
		t.Errorf("%s %s was sent", r.Method, r.URL)
		return nil, errors.New("sent")
	})
	ctx, pods, lamps := t.Context(), For(c, MustOf[*corev1.Pod]()), For(c, Custom[*Lamp](lampResource))
	for want, call := range map[string]func() error{
		"not a pointer": func() error {
			_, err := SubresourceOf[corev1.Pod](pods, "status").Get(ctx, webKey, GetOptions{})
			return err
		},
		"is empty": func() error {
			_, err := SubresourceOf[*Lamp](For(c, Resource[*Lamp]{}), "status").Get(ctx, webKey, GetOptions{})
			return err
		},
		"name of the obj": func() error {
			_, err := SubresourceOf[*policyv1.Eviction](pods, "eviction").Create(ctx, object.Key{Namespace: "shop"}, &policyv1.Eviction{}, WriteOptions{})
			return err
		},
		"set its apiVer": func() error {
			_, err := SubresourceOf[*unstructured.Unstructured](lamps, "scale").Update(ctx, webKey, &unstructured.Unstructured{Object: map[string]any{}}, WriteOptions{})
			return err
		},
		"is nil": func() error {
			_, err := SubresourceOf[*policyv1.Eviction](pods, "eviction").Create(ctx, webKey, nil, WriteOptions{})
			return err
		},
		"patch is empty": func() error {
			_, err := SubresourceOf[*policyv1.Eviction](pods, "eviction").Patch(ctx, webKey, Patch{}, WriteOptions{})
			return err
		},
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q in it", err, want)
		}
	}
}

func TestBuiltinPartsMatchTheScheme(t *testing.T) {
	var parts []string
	for gvk, typ := range scheme.Scheme.AllKnownTypes() {
		if name := typeName(typ); slices.Contains(builtinParts, name) {
			parts = append(parts, name)
			if got, _ := builtinKind(typ); got != gvk {
				t.Errorf("%v is %v, want %v", typ, got, gvk)
			}
		}
	}
	if slices.Sort(parts); len(parts) != len(builtinParts) {
		t.Errorf("known are %q of %d", parts, len(builtinParts))
	}
	if got, ok := builtinKind(reflect.TypeFor[Lamp]()); ok {
		t.Errorf("a lamp is %v", got)
	}
}
