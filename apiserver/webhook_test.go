package apiserver_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/object"
)

// hook answers admission reviews and remembers the requests.
type hook struct {
	mu     sync.Mutex // guards seen
	seen   []string
	answer func(*admissionv1.AdmissionRequest) admissionv1.AdmissionResponse
}

func allow(*admissionv1.AdmissionRequest) admissionv1.AdmissionResponse {
	return admissionv1.AdmissionResponse{Allowed: true}
}

func patchWith(patch string) func(*admissionv1.AdmissionRequest) admissionv1.AdmissionResponse {
	return func(*admissionv1.AdmissionRequest) admissionv1.AdmissionResponse {
		kind := admissionv1.PatchTypeJSONPatch
		return admissionv1.AdmissionResponse{Allowed: true, Patch: []byte(patch), PatchType: &kind}
	}
}

func (h *hook) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r := review.Request
	resource := r.Resource.Resource
	if r.SubResource != "" {
		resource += "/" + r.SubResource
	}
	h.mu.Lock()
	h.seen = append(h.seen, fmt.Sprintf("%s %s %s/%s", r.Operation, resource, r.Namespace, r.Name))
	h.mu.Unlock()
	response := h.answer(r)
	response.UID = r.UID
	review.Request, review.Response = nil, &response
	_ = json.NewEncoder(w).Encode(review) // fails only if the server disconnected
}

func (h *hook) take() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	text := strings.Join(h.seen, ", ")
	h.seen = nil
	return text
}

func mutating(name string, change func(*admissionregistrationv1.MutatingWebhook)) *admissionregistrationv1.MutatingWebhookConfiguration {
	none := admissionregistrationv1.SideEffectClassNone
	w := admissionregistrationv1.MutatingWebhook{
		Name: name + ".example.com", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "hooks", Name: name}},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{"*"},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
		}},
	}
	if change != nil {
		change(&w)
	}
	return &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: []admissionregistrationv1.MutatingWebhook{w}}
}

func validating(name string, change func(*admissionregistrationv1.MutatingWebhook)) *admissionregistrationv1.ValidatingWebhookConfiguration {
	w := mutating(name, change).Webhooks[0]
	return &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
		Name: w.Name, SideEffects: w.SideEffects, AdmissionReviewVersions: w.AdmissionReviewVersions, ClientConfig: w.ClientConfig, Rules: w.Rules,
		NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, FailurePolicy: w.FailurePolicy, TimeoutSeconds: w.TimeoutSeconds,
	}}}
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// Every write of a client calls the webhooks: the mutating ones in order, then the
// validating ones with their result.
func TestWebhooksSeeAndChangeWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apiserver.Start(t, apiserver.Options{})
		first, second := &hook{answer: patchWith(`[{"op":"add","path":"/data","value":{"first":"1"}}]`)}, &hook{}
		second.answer = func(r *admissionv1.AdmissionRequest) admissionv1.AdmissionResponse {
			if r.Operation == "DELETE" {
				return allow(r)
			}
			return patchWith(`[{"op":"test","path":"/data/first","value":"1"},{"op":"add","path":"/data/second","value":"2"}]`)(r)
		}
		last := &hook{answer: func(r *admissionv1.AdmissionRequest) admissionv1.AdmissionResponse {
			var m corev1.ConfigMap
			if r.Operation != "DELETE" {
				if err := json.Unmarshal(r.Object.Raw, &m); err != nil || len(m.Data) != 2 || m.UID == "" || m.Kind != "ConfigMap" {
					t.Errorf("validated %+v, %v", m, err)
				}
			}
			if strings.HasPrefix(r.Name, "bad") {
				return admissionv1.AdmissionResponse{Result: &metav1.Status{Message: "no", Code: 403}}
			}
			return admissionv1.AdmissionResponse{Allowed: true, Warnings: []string{"careful"}}
		}}
		first.answer = func(answer func(*admissionv1.AdmissionRequest) admissionv1.AdmissionResponse) func(r *admissionv1.AdmissionRequest) admissionv1.AdmissionResponse {
			return func(r *admissionv1.AdmissionRequest) admissionv1.AdmissionResponse {
				if r.Operation == "DELETE" {
					return allow(r)
				}
				return answer(r)
			}
		}(first.answer)
		s.HandleWebhook("hooks", "a", first)
		s.HandleWebhook("hooks", "b", second)
		s.HandleWebhook("hooks", "last", last)
		mustCreate(t, s, mutating("b", nil), mutating("a", nil), validating("last", nil))
		warned := &warnings{}
		cfg := s.Config()
		cfg.WarningHandler = warned
		maps := clientsetOf(t, cfg).CoreV1().ConfigMaps("default")
		expect := func(what string, err error, want string) {
			t.Helper()
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			for _, h := range []*hook{first, second, last} {
				if got := h.take(); got != want {
					t.Errorf("%s: %q, want %q", what, got, want)
				}
			}
		}
		m, err := maps.Create(t.Context(), configMap("one"), metav1.CreateOptions{})
		expect("create", err, "CREATE configmaps default/one")
		if fmt.Sprint(m.Data) != "map[first:1 second:2]" || !slices.Contains(warned.all, "careful") {
			t.Errorf("created %v, warnings %v", m.Data, warned.all)
		}
		m.Data = nil
		_, err = maps.Update(t.Context(), m, metav1.UpdateOptions{})
		expect("update", err, "UPDATE configmaps default/one")
		_, err = maps.Patch(t.Context(), "one", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
		expect("patch", err, "UPDATE configmaps default/one")
		apply := []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"two"}}`)
		_, err = maps.Patch(t.Context(), "two", types.ApplyPatchType, apply, metav1.PatchOptions{FieldManager: "x"})
		expect("apply", err, "CREATE configmaps default/two")
		_, err = maps.Create(t.Context(), configMap("bad"), metav1.CreateOptions{})
		if err == nil || err.Error() != `admission webhook "last.example.com" denied the request: no` || !apierrors.IsForbidden(err) && apierrors.ReasonForError(err) != "" {
			t.Errorf("denied: %v", err)
		}
		if _, err := s.Get(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, object.Key{Namespace: "default", Name: "bad"}); !apierrors.IsNotFound(err) {
			t.Errorf("a denied object was stored: %v", err)
		}
		for _, h := range []*hook{first, second, last} {
			h.take()
		}
		expect("delete", maps.Delete(t.Context(), "two", metav1.DeleteOptions{}), "DELETE configmaps default/two")
		mustCreate(t, s, configMap("server")) // the server's own writes call none
		expect("own", nil, "")
	})
}

type warnings struct{ all []string }

func (w *warnings) HandleWarningHeader(_ int, _, text string) { w.all = append(w.all, text) }

// A webhook is called for what its rules and selectors select.
func TestWebhooksAreSelected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apiserver.Start(t, apiserver.Options{})
		rules := func(operation, group, resource string) func(*admissionregistrationv1.MutatingWebhook) {
			return func(w *admissionregistrationv1.MutatingWebhook) {
				w.Rules = []admissionregistrationv1.RuleWithOperations{{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationType(operation)},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}},
				}}
			}
		}
		selecting := func(namespace, own string) func(*admissionregistrationv1.MutatingWebhook) {
			return func(w *admissionregistrationv1.MutatingWebhook) {
				rules("*", "*", "*/*")(w)
				if namespace != "" {
					w.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}}
				}
				if own != "" {
					w.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"l": own}}
				}
			}
		}
		hooks := map[string]*hook{}
		for name, change := range map[string]func(*admissionregistrationv1.MutatingWebhook){
			"updates": rules("UPDATE", "", "configmaps"), "apps": rules("*", "apps", "*"), "status": rules("*", "*", "*/status"), "all": rules("*", "*", "*/*"),
			"system": selecting("kube-system", ""), "labelled": selecting("", "x"),
			"cluster": func(w *admissionregistrationv1.MutatingWebhook) {
				rules("*", "*", "*")(w)
				scope := admissionregistrationv1.ClusterScope
				w.Rules[0].Scope = &scope
			},
		} {
			hooks[name] = &hook{answer: allow}
			s.HandleWebhook("hooks", name, hooks[name])
			mustCreate(t, s, validating(name, change))
		}
		expect := func(what string, want ...string) {
			t.Helper()
			var got []string
			for name, h := range hooks {
				if h.take() != "" {
					got = append(got, name)
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s called %v, want %v", what, got, want)
			}
		}
		do := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		core := clientset(t, s).CoreV1()
		m, err := core.ConfigMaps("default").Create(t.Context(), configMap("m"), metav1.CreateOptions{})
		do(err)
		expect("create", "all")
		m.Labels = map[string]string{"l": "x"}
		m, err = core.ConfigMaps("default").Update(t.Context(), m, metav1.UpdateOptions{})
		do(err)
		expect("update", "all", "updates", "labelled")
		m.Labels = nil
		_, err = core.ConfigMaps("default").Update(t.Context(), m, metav1.UpdateOptions{})
		do(err)
		expect("update of a labelled object", "all", "updates", "labelled")
		_, err = core.ConfigMaps("kube-system").Create(t.Context(), configMap("m"), metav1.CreateOptions{})
		do(err)
		expect("create in kube-system", "all", "system")
		n, err := core.Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{})
		do(err)
		expect("create a node", "all", "cluster", "system")
		_, err = core.Nodes().UpdateStatus(t.Context(), n, metav1.UpdateOptions{})
		do(err)
		expect("status of a node", "all", "status", "system")
		_, err = core.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{})
		do(err)
		expect("create a namespace", "all", "cluster")
		do(core.ConfigMaps("kube-system").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
		expect("delete a collection", "all", "system")
		do(clientset(t, s).AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), "all", metav1.DeleteOptions{}))
		expect("delete a configuration")
	})
}

// What fails in a webhook fails the request, unless the failure policy ignores it.
func TestWebhooksFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apiserver.Start(t, apiserver.Options{})
		ignore, some, five := admissionregistrationv1.Ignore, admissionregistrationv1.SideEffectClassSome, int32(5)
		s.HandleWebhook("hooks", "slow", http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() }))
		s.HandleWebhook("hooks", "broken", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oh", http.StatusInternalServerError) }))
		s.HandleWebhook("hooks", "empty", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`)
		}))
		s.HandleWebhook("hooks", "effects", &hook{answer: allow})
		maps := clientset(t, s).CoreV1().ConfigMaps("default")
		for _, test := range []struct {
			name   string
			dry    []string
			change func(*admissionregistrationv1.MutatingWebhook)
			want   string
		}{
			{"absent", nil, nil, `Internal error occurred: failed calling webhook "absent.example.com": failed to call webhook: Post "https://absent.hooks.svc:443/?timeout=10s": service "absent" not found`},
			{"slow", nil, func(w *admissionregistrationv1.MutatingWebhook) { w.TimeoutSeconds = &five }, `Internal error occurred: failed calling webhook "slow.example.com": failed to call webhook: Post "https://slow.hooks.svc:443/?timeout=5s": context deadline exceeded`},
			{"slow", nil, func(w *admissionregistrationv1.MutatingWebhook) { w.FailurePolicy = &ignore }, ""},
			{"broken", nil, nil, `Internal error occurred: failed calling webhook "broken.example.com": failed to call webhook: an error on the server ("oh") has prevented the request from succeeding`},
			{"empty", nil, nil, `Internal error occurred: failed calling webhook "empty.example.com": received invalid webhook response: webhook response was absent`},
			{"effects", []string{"All"}, func(w *admissionregistrationv1.MutatingWebhook) { w.SideEffects = &some }, `admission webhook "effects.example.com" does not support dry run`},
			{"effects", []string{"All"}, nil, ""},
		} {
			config := validating(test.name, test.change)
			mustCreate(t, s, config)
			began := time.Now()
			_, err := maps.Create(t.Context(), configMap("m"), metav1.CreateOptions{DryRun: test.dry})
			if text := fmt.Sprint(err); text != test.want && (err != nil || test.want != "") {
				t.Errorf("%s: %s\nwant %s", test.name, text, test.want)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("%s took %v", test.name, took)
			}
			if err := s.Delete(config); err != nil {
				t.Fatal(err)
			}
			_ = s.Delete(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m"}}) // if it was created
		}
	})
}

// A condition cannot be evaluated, so it must not be ignored.
func TestWebhooksWithConditionsAreRejected(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	_, err := s.Create(mutating("a", func(w *admissionregistrationv1.MutatingWebhook) {
		w.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "c", Expression: "true"}}
	}))
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "webhooks[0].matchConditions: Forbidden") {
		t.Errorf("err = %v", err)
	}
}

// A webhook that asks for it is called again when a later one changed the object.
func TestWebhooksAreReinvoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apiserver.Start(t, apiserver.Options{})
		needed := admissionregistrationv1.IfNeededReinvocationPolicy
		again := func(w *admissionregistrationv1.MutatingWebhook) { w.ReinvocationPolicy = &needed }
		a, b, c := &hook{answer: allow}, &hook{answer: patchWith(`[{"op":"add","path":"/data","value":{"b":"1"}}]`)}, &hook{answer: allow}
		for name, h := range map[string]*hook{"a": a, "b": b, "c": c} {
			s.HandleWebhook("hooks", name, h)
		}
		mustCreate(t, s, mutating("a", again), mutating("b", again), mutating("c", again))
		if _, err := clientset(t, s).CoreV1().ConfigMaps("default").Create(t.Context(), configMap("m"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for name, h := range map[string]*hook{"a": a, "b": b, "c": c} {
			if calls := len(h.seen); calls != 1 && name != "a" || calls != 2 && name == "a" {
				t.Errorf("%s was called %d times", name, calls)
			}
		}
	})
}

// A webhook with a URL is called over HTTPS and must have a certificate of the bundle.
func TestWebhooksAreCalledOverHTTPS(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	h := &hook{answer: patchWith(`[{"op":"add","path":"/data","value":{"a":"b"}}]`)}
	server := httptest.NewTLSServer(h)
	defer server.Close()
	url := server.URL + "/mutate"
	trusted := false
	config := func() *admissionregistrationv1.MutatingWebhookConfiguration {
		return mutating("url", func(w *admissionregistrationv1.MutatingWebhook) {
			w.ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: &url}
			if trusted {
				w.ClientConfig.CABundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
			}
		})
	}
	mustCreate(t, s, config())
	maps := clientset(t, s).CoreV1().ConfigMaps("default")
	if _, err := maps.Create(t.Context(), configMap("m"), metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "x509: certificate signed by unknown authority") {
		t.Errorf("untrusted: %v", err)
	}
	trusted = true
	if _, err := s.Update(config()); err != nil {
		t.Fatal(err)
	}
	if m, err := maps.Create(t.Context(), configMap("m"), metav1.CreateOptions{}); err != nil || m.Data["a"] != "b" {
		t.Errorf("created %v, %v", m, err)
	}
}

// The validating webhooks of one request are called at the same time, each with its own copy.
func TestSeveralWebhooksValidateTheSameObject(t *testing.T) {
	server := apiserver.Start(t, apiserver.Options{})
	if err := server.LoadYAML([]byte(lakesCRD)); err != nil {
		t.Fatal(err)
	}
	server.HandleWebhook("default", "hooks", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		_ = json.NewEncoder(w).Encode(review)
	}))
	none := admissionregistrationv1.SideEffectClassNone
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "hooks"}}
	for i := range 8 {
		config.Webhooks = append(config.Webhooks, admissionregistrationv1.ValidatingWebhook{
			Name: fmt.Sprintf("hook-%d.example.com", i), SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "default", Name: "hooks"}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"lakes"}},
			}},
		})
	}
	fill(t, server, config)
	client := must(dynamic.NewForConfig(server.Config())).Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "lakes"}).Namespace("default")
	for i := range 20 {
		if _, err := client.Create(t.Context(), lake(fmt.Sprint("lake-", i)), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
