package admission

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/tarnproject/tarn/apiserver/internal/access"
	"github.com/tarnproject/tarn/apiserver/internal/codec"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/storage"
	"github.com/tarnproject/tarn/object"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Webhooks calls the admission webhooks of the stored configurations. They are compiled for
// the first write after a change.
type Webhooks struct {
	Options
	mutating, validating, namespaces *kinds.Kind

	mu       sync.Mutex // guards the rest
	edits    uint64     // of the buckets when all was compiled
	all      [2][]*webhook
	handlers map[string]http.Handler // by namespace/service
}

// Options are the parts of a server that webhooks need.
type Options struct {
	Storage *storage.Storage
	Catalog *kinds.Catalog
	Codecs  *codec.Codecs
	Access  *access.Control
	Logger  *slog.Logger
	// NewUID returns the UID of a review.
	NewUID func() string
	// Go runs a function in a goroutine that the server waits for.
	Go func(func())
	// Calling is called before a webhook is called for a request, and its result after that.
	Calling func(*http.Request) (called func())
}

// NewWebhooks returns the webhooks of a server.
func NewWebhooks(opts Options) (*Webhooks, error) {
	h := &Webhooks{Options: opts}
	for gvr, into := range map[schema.GroupVersionResource]**kinds.Kind{
		admissionregistrationv1.SchemeGroupVersion.WithResource("mutatingwebhookconfigurations"):   &h.mutating,
		admissionregistrationv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations"): &h.validating,
		corev1.SchemeGroupVersion.WithResource("namespaces"):                                       &h.namespaces,
	} {
		k, err := opts.Catalog.Get(gvr)
		if err != nil {
			return nil, err
		}
		*into = k
	}
	return h, nil
}

// webhook is one webhook of a configuration. It is not modified after it is compiled. A
// validating webhook has the fields of a mutating one that apply to it.
type webhook struct {
	admissionregistrationv1.MutatingWebhook
	validating         bool
	namespaces, labels labels.Selector
	client             *rest.RESTClient
	invalid            error // why it cannot be called
}

// Handle serves the webhooks of a service, or none if h is nil.
func (h *Webhooks) Handle(namespace, service string, handler http.Handler) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.handlers == nil {
		h.handlers = map[string]http.Handler{}
	}
	if h.handlers[namespace+"/"+service] = handler; handler == nil {
		delete(h.handlers, namespace+"/"+service)
	}
}

// handler returns the handler of a service.
func (h *Webhooks) handler(namespace, service string) (http.Handler, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if found := h.handlers[namespace+"/"+service]; found != nil {
		return found, nil
	}
	return nil, fmt.Errorf("service %q not found", service)
}

// compiled returns the mutating and validating webhooks in the order of their
// configurations' names.
func (h *Webhooks) compiled() (mutating, validating []*webhook) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.Storage
	s.Locked(func() {
		edits := s.Edits(h.mutating, h.validating)
		if edits == h.edits {
			return
		}
		h.edits, h.all = edits, [2][]*webhook{}
		for _, r := range s.Records(h.mutating) {
			for _, w := range r.Obj.(*admissionregistrationv1.MutatingWebhookConfiguration).Webhooks {
				h.all[0] = append(h.all[0], h.compile(&webhook{MutatingWebhook: w}))
			}
		}
		for _, r := range s.Records(h.validating) {
			for _, w := range r.Obj.(*admissionregistrationv1.ValidatingWebhookConfiguration).Webhooks {
				h.all[1] = append(h.all[1], h.compile(&webhook{validating: true, MutatingWebhook: admissionregistrationv1.MutatingWebhook{
					Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy,
					NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, SideEffects: w.SideEffects, TimeoutSeconds: w.TimeoutSeconds,
					AdmissionReviewVersions: w.AdmissionReviewVersions,
				}}))
			}
		}
	})
	return h.all[0], h.all[1]
}

// compile parses the selectors of a webhook and creates its client.
func (h *Webhooks) compile(w *webhook) *webhook {
	selector := func(s *metav1.LabelSelector) labels.Selector {
		if s == nil {
			return labels.Everything()
		}
		sel, err := metav1.LabelSelectorAsSelector(s)
		if err != nil {
			w.invalid = cmp.Or(w.invalid, err)
			return labels.Everything() // and the call fails
		}
		return sel
	}
	w.namespaces, w.labels = selector(w.NamespaceSelector), selector(w.ObjectSelector)
	if w.invalid != nil {
		return w
	}
	cfg := &rest.Config{QPS: -1}
	cfg.ContentType, cfg.NegotiatedSerializer = runtime.ContentTypeJSON, scheme.Codecs.WithoutConversion()
	switch c := w.ClientConfig; {
	case c.Service != nil:
		port := int32(443)
		if c.Service.Port != nil {
			port = *c.Service.Port
		}
		if c.Service.Path != nil {
			cfg.APIPath = *c.Service.Path
		}
		cfg.Host = fmt.Sprintf("https://%s.%s.svc:%d", c.Service.Name, c.Service.Namespace, port)
		cfg.Transport = serviceTransport{h, c.Service.Namespace, c.Service.Name}
	case c.URL != nil:
		u, err := url.Parse(*c.URL)
		if err != nil {
			w.invalid = fmt.Errorf("unparsable URL: %w", err)
			return w
		}
		cfg.Host, cfg.APIPath = u.Scheme+"://"+u.Host, u.Path
		trust := &tls.Config{MinVersion: tls.VersionTLS12}
		if len(c.CABundle) > 0 {
			trust.RootCAs = x509.NewCertPool()
			trust.RootCAs.AppendCertsFromPEM(c.CABundle)
		}
		// No connection outlives its request.
		cfg.Transport = &http.Transport{TLSClientConfig: trust, DisableKeepAlives: true}
	default:
		w.invalid = errors.New("webhook configuration must have either service or URL")
		return w
	}
	w.client, w.invalid = rest.UnversionedRESTClientFor(cfg)
	return w
}

// matching returns the version of the resource that a webhook is called with for a request,
// or nil if it is not called. obj is nil for a deletion.
func (a *Admission) matching(h *webhook, old *kinds.Record, obj runtime.Object) *kinds.Kind {
	k := a.Request.Kind
	if k.Group == admissionregistrationv1.GroupName {
		return nil // a webhook cannot prevent its own removal
	}
	match := func(k *kinds.Kind) bool {
		return slices.ContainsFunc(h.Rules, func(rule admissionregistrationv1.RuleWithOperations) bool { return a.ruleMatches(rule, k, old) })
	}
	if !match(k) {
		if h.MatchPolicy != nil && *h.MatchPolicy == admissionregistrationv1.Exact {
			return nil
		}
		others := slices.DeleteFunc(a.hooks.Catalog.Versions(k.GVR().GroupResource()), func(other *kinds.Kind) bool { return other.Storage != k.Storage || !match(other) })
		if len(others) == 0 {
			return nil
		}
		k = slices.MinFunc(others, func(a, b *kinds.Kind) int { return strings.Compare(a.Version, b.Version) })
	}
	var states []metav1.Object // the new one first
	if obj != nil {
		states = append(states, kinds.MetaOf(obj))
	}
	if old != nil {
		states = append(states, old.Meta)
	}
	if !a.namespaceMatches(h.namespaces, states[0]) || !slices.ContainsFunc(states, func(m metav1.Object) bool { return h.labels.Matches(labels.Set(m.GetLabels())) }) {
		return nil
	}
	return k
}

func (a *Admission) ruleMatches(rule admissionregistrationv1.RuleWithOperations, k *kinds.Kind, old *kinds.Record) bool {
	if !access.Either(rule.APIGroups, "*", k.Group) || !access.Either(rule.APIVersions, "*", k.Version) {
		return false
	}
	if s := rule.Scope; s != nil && (*s == admissionregistrationv1.NamespacedScope && !k.Namespaced || *s == admissionregistrationv1.ClusterScope && k.Namespaced) {
		return false
	}
	if op := admissionregistrationv1.OperationType(a.operation(old)); !slices.Contains(rule.Operations, op) && !slices.Contains(rule.Operations, admissionregistrationv1.OperationAll) {
		return false
	}
	return slices.ContainsFunc(rule.Resources, func(text string) bool {
		resource, sub, _ := strings.Cut(text, "/")
		return (resource == "*" || resource == k.Resource.Resource) && (sub == "*" || sub == a.Request.Subresource)
	})
}

// namespaceMatches applies a namespace selector to the namespace of an object, or to the
// object if it is a namespace. Other objects without a namespace always match.
func (a *Admission) namespaceMatches(sel labels.Selector, m metav1.Object) bool {
	if a.Request.Kind.Storage != a.hooks.namespaces {
		if a.Request.Namespace == "" || sel.Empty() {
			return true
		}
		ns := a.hooks.Storage.Get(a.hooks.namespaces, object.Key{Name: a.Request.Namespace})
		if ns == nil {
			return false
		}
		m = ns.Meta
	}
	// kube-apiserver gives every namespace this label.
	return sel.Matches(labels.Merge(m.GetLabels(), labels.Set{corev1.LabelMetadataName: m.GetName()}))
}
