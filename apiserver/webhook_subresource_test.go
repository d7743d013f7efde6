package apiserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/tarnproject/tarn/apiserver"
)

// The subresources with kinds of their own call webhooks with these kinds: mutating ones change
// what is done, validating ones prevent it.
func TestWebhooksSeeAndChangeSubresources(t *testing.T) {
	for _, c := range []struct {
		resource, kind, patch, seen string
		do                          func(ctx context.Context, c *kubernetes.Clientset, dry []string) error
		check                       func(ctx context.Context, c *kubernetes.Clientset) error
	}{{
		"deployments/scale", "autoscaling/v1 Scale", `[{"op":"test","path":"/spec/replicas","value":2},{"op":"replace","path":"/spec/replicas","value":3}]`, "UPDATE",
		func(ctx context.Context, c *kubernetes.Clientset, dry []string) error {
			_, err := c.AppsV1().Deployments("default").UpdateScale(ctx, "web", &autoscalingv1.Scale{
				ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}, Spec: autoscalingv1.ScaleSpec{Replicas: 2}}, metav1.UpdateOptions{DryRun: dry})
			return err
		},
		func(ctx context.Context, c *kubernetes.Clientset) error {
			d, err := c.AppsV1().Deployments("default").Get(ctx, "web", metav1.GetOptions{})
			if err == nil && *d.Spec.Replicas != 3 {
				err = fmt.Errorf("%d replicas", *d.Spec.Replicas)
			}
			return err
		},
	}, {
		"pods/binding", "v1 Binding", `[{"op":"replace","path":"/target/name","value":"node-2"}]`, "CREATE",
		func(ctx context.Context, c *kubernetes.Clientset, dry []string) error {
			return c.CoreV1().Pods("default").Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Target: corev1.ObjectReference{Name: "node-1"}}, metav1.CreateOptions{DryRun: dry})
		},
		func(ctx context.Context, c *kubernetes.Clientset) error {
			pod, err := c.CoreV1().Pods("default").Get(ctx, "web", metav1.GetOptions{})
			if err == nil && pod.Spec.NodeName != "node-2" {
				err = fmt.Errorf("on node %q", pod.Spec.NodeName)
			}
			return err
		},
	}, {
		"pods/eviction", "policy/v1 Eviction", `[{"op":"add","path":"/deleteOptions/gracePeriodSeconds","value":0}]`, "CREATE",
		func(ctx context.Context, c *kubernetes.Clientset, dry []string) error {
			return c.PolicyV1().Evictions("default").Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}, DeleteOptions: &metav1.DeleteOptions{DryRun: dry}})
		},
		func(ctx context.Context, c *kubernetes.Clientset) error {
			pod, err := c.CoreV1().Pods("default").Get(ctx, "web", metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("the pod exists: %+v, %v", pod, err)
			}
			return nil
		},
	}, {
		"serviceaccounts/token", "authentication.k8s.io/v1 TokenRequest", `[{"op":"add","path":"/spec/audiences","value":["theirs"]}]`, "CREATE",
		func(ctx context.Context, c *kubernetes.Clientset, dry []string) error {
			made, err := c.CoreV1().ServiceAccounts("default").CreateToken(ctx, "web", &authenticationv1.TokenRequest{}, metav1.CreateOptions{DryRun: dry})
			if err == nil && len(dry) == 0 && fmt.Sprint(made.Spec.Audiences) != "[theirs]" {
				err = fmt.Errorf("for %q", made.Spec.Audiences)
			}
			return err
		},
		func(context.Context, *kubernetes.Clientset) error { return nil },
	}} {
		t.Run(c.resource, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := apiserver.Start(t, apiserver.Options{})
				one, grace := int32(1), int64(30)
				mustCreate(t, s, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{Replicas: &one}},
					&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "web"}},
					&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &grace}})
				rule := func(w *admissionregistrationv1.MutatingWebhook) {
					w.Rules[0].APIGroups, w.Rules[0].Resources = []string{"*"}, []string{c.resource}
				}
				changing, checking := &hook{answer: patchWith(c.patch)}, &hook{}
				deny := true
				checking.answer = func(r *admissionv1.AdmissionRequest) admissionv1.AdmissionResponse {
					gvk := schema.GroupVersionKind(r.Kind)
					var obj struct {
						metav1.TypeMeta
						Metadata metav1.ObjectMeta
					}
					if err := json.Unmarshal(r.Object.Raw, &obj); err != nil || obj.GroupVersionKind() != gvk || gvk.GroupVersion().String()+" "+gvk.Kind != c.kind ||
						*r.RequestKind != r.Kind || obj.Metadata.Name != "web" || obj.Metadata.Namespace != "default" {
						t.Errorf("validated %s as %v: %v", r.Object.Raw, gvk, err)
					}
					if (r.OldObject.Raw != nil) != (r.Operation == "UPDATE") {
						t.Errorf("the old object is %s", r.OldObject.Raw)
					}
					return admissionv1.AdmissionResponse{Allowed: !deny}
				}
				s.HandleWebhook("hooks", "a", changing)
				s.HandleWebhook("hooks", "b", checking)
				mustCreate(t, s, mutating("a", rule), validating("b", rule))
				clients := clientsetOf(t, s.Config())
				version := s.Version()
				if err := c.do(t.Context(), clients, nil); err == nil || !strings.Contains(err.Error(), "denied the request") {
					t.Errorf("denied: %v", err)
				}
				deny = false
				if err := c.do(t.Context(), clients, []string{metav1.DryRunAll}); err != nil {
					t.Errorf("dry run: %v", err)
				}
				if now := s.Version(); now != version {
					t.Errorf("%d writes of denied requests and dry runs", now-version)
				}
				changing.take()
				checking.take()
				if err := c.do(t.Context(), clients, nil); err != nil {
					t.Error(err)
				}
				if err := c.check(t.Context(), clients); err != nil {
					t.Error(err)
				}
				want := c.seen + " " + c.resource + " default/web"
				if a, b := changing.take(), checking.take(); a != want || b != want {
					t.Errorf("webhooks were called for %q and %q, want %q", a, b, want)
				}
			})
		})
	}
}
