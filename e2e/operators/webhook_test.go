package operators

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/e2e/operators/cronjob"
	"github.com/tarnproject/tarn/e2e/patience"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// The server calls the webhooks of the tutorial: they set the defaults of a CronJob, and deny
// one with a wrong schedule.
func TestTheServerCallsTheWebhooksOfCronJobs(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("/mutate", admission.WithDefaulter[*cronjob.CronJob](scheme, cronjob.Webhook{}))
	mux.Handle("/validate", admission.WithValidator[*cronjob.CronJob](scheme, cronjob.Webhook{}))
	hooks := httptest.NewTLSServer(mux)
	t.Cleanup(hooks.Close)
	onBoth(t, cronJobs, cronjob.Definition, func(t *testing.T, c client.Client, namespace string) {
		for _, config := range webhookConfigurations(hooks, namespace) {
			create(t, c, config)
			t.Cleanup(func() {
				if err := c.Delete(context.WithoutCancel(t.Context()), config); err != nil {
					t.Error(err)
				}
			})
		}
		cronJob := newCronJob(namespace, "*/5 * * * *")
		patience.Until(t, "the defaults are set", func() bool { // the real server reads configurations from a cache
			cronJob = newCronJob(namespace, "*/5 * * * *")
			cronJob.Name, cronJob.GenerateName = "", "with-defaults-"
			create(t, c, cronJob)
			return cronJob.Spec.ConcurrencyPolicy == cronjob.AllowConcurrent
		})
		if *cronJob.Spec.Suspend || *cronJob.Spec.SuccessfulJobsHistoryLimit != 3 || *cronJob.Spec.FailedJobsHistoryLimit != 1 {
			t.Errorf("the defaults are %+v", cronJob.Spec)
		}
		const denied = `admission webhook "vcronjob.kb.io" denied the request: CronJob.batch.tutorial.kubebuilder.io "wrong" is invalid: spec.schedule: Invalid value: "never"`
		patience.Until(t, "a wrong schedule is denied", func() bool {
			wrong := newCronJob(namespace, "never")
			wrong.Name = "wrong"
			err := c.Create(t.Context(), wrong, client.DryRunAll)
			if err != nil && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), denied)) {
				t.Fatal(err)
			}
			return err != nil
		})
	})
}

// inProcess is a webhook server that does not listen. The embedded server calls its handlers.
type inProcess struct{ webhook.Server }

func (inProcess) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// generatedWebhooks is what controller-gen writes to config/webhook/manifests.yaml.
const generatedWebhooks = `apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: mutating-webhook-configuration}
webhooks:
- name: mcronjob.kb.io
  admissionReviewVersions: [v1]
  clientConfig: {service: {name: webhook-service, namespace: system, path: /mutate-batch-tutorial-kubebuilder-io-v1-cronjob}}
  failurePolicy: Fail
  rules: [{apiGroups: [batch.tutorial.kubebuilder.io], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [cronjobs]}]
  sideEffects: None
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: validating-webhook-configuration}
webhooks:
- name: vcronjob.kb.io
  admissionReviewVersions: [v1]
  clientConfig: {service: {name: webhook-service, namespace: system, path: /validate-batch-tutorial-kubebuilder-io-v1-cronjob}}
  failurePolicy: Fail
  rules: [{apiGroups: [batch.tutorial.kubebuilder.io], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [cronjobs]}]
  sideEffects: None
`

// The webhooks of a manager need neither certificates nor a port, so they run in virtual time.
func TestTheWebhooksOfAManagerRunInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.Start(t, apiserver.Options{Schemas: schemas, Strict: true})
		if err := server.Load(fstest.MapFS{
			"crd/bases/cronjobs.yaml": {Data: cronjob.Definition}, "webhook/manifests.yaml": {Data: []byte(generatedWebhooks)},
		}); err != nil {
			t.Fatal(err)
		}
		operator(func(ctx context.Context, mgr ctrl.Manager) error {
			if err := cronjob.SetupWebhookWithManager(mgr); err != nil {
				return err
			}
			server.HandleWebhook("system", "webhook-service", mgr.GetWebhookServer().WebhookMux())
			return cronJobs(ctx, mgr)
		}).start(t, server.MemoryConfig())
		<-time.After(30 * time.Second) // the manager has started
		c := newClient(t, server.MemoryConfig())
		good, wrong := newCronJob("default", "*/5 * * * *"), newCronJob("default", "never")
		create(t, c, good)
		if good.Spec.ConcurrencyPolicy != cronjob.AllowConcurrent {
			t.Errorf("the defaults are %+v", good.Spec)
		}
		wrong.Name = "wrong"
		if err := c.Create(t.Context(), wrong); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `admission webhook "vcronjob.kb.io" denied the request`) {
			t.Error(err)
		}
	})
}

// webhookConfigurations returns those that kubebuilder generates, for one namespace.
func webhookConfigurations(hooks *httptest.Server, namespace string) []client.Object {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hooks.Certificate().Raw})
	at := func(path string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{URL: new(hooks.URL + path), CABundle: ca}
	}
	rules := []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{"batch.tutorial.kubebuilder.io"}, APIVersions: []string{"v1"}, Resources: []string{"cronjobs"}},
	}}
	here := &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}}
	none := admissionregistrationv1.SideEffectClassNone
	name := metav1.ObjectMeta{Name: "of-" + namespace}
	return []client.Object{
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: name, Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "mcronjob.kb.io", ClientConfig: at("/mutate"), Rules: rules, NamespaceSelector: here, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		}}},
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: name, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "vcronjob.kb.io", ClientConfig: at("/validate"), Rules: rules, NamespaceSelector: here, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		}}},
	}
}
