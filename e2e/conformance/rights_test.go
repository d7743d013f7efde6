package conformance

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarnproject/tarn/e2e/controlplane"
	"github.com/tarnproject/tarn/e2e/patience"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// grant lets users read the config maps of the namespace, and returns what takes that back.
func grant(t *testing.T, s server, subjects ...rbacv1.Subject) (revoke func()) {
	t.Helper()
	api := s.clientset(t).RbacV1()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "watch"}}},
	}
	if _, err := api.Roles(s.namespace).Create(patience.Context(t), role, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
	}
	if _, err := api.RoleBindings(s.namespace).Create(patience.Context(t), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := api.RoleBindings(s.namespace).Delete(patience.Context(t), "reader", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// W23: rights are taken away and given back while a mirror runs.
func TestW23_RightsComeAndGo(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		w := writer{t, s}
		w.create("a", "0")
		config := s.configFor(t, "ann")
		ann := rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "ann"}
		m := startMirror(t, config, configMaps, mirrorOptions[*corev1.ConfigMap]{
			selection: object.Selection{Namespace: s.namespace}, unsynced: true,
			// Rights are looked at when a watch begins, so it begins often.
			reflector: reflector.Options[*corev1.ConfigMap]{MinWatchTimeout: time.Second},
		})
		all := startEveryone(t, s, config, m)
		patience.Until(t, "to be forbidden", func() bool { return m.reflector().Counts.Ended[reflector.Forbidden] > 0 })
		revoke := grant(t, s, ann)
		if err := m.WaitSynced(patience.Context(t)); err != nil {
			t.Fatal(err)
		}
		all.same(t, s, m)
		revoke()
		before := m.reflector().Counts.Ended[reflector.Forbidden]
		patience.Until(t, "to be forbidden again", func() bool {
			st := m.reflector()
			return st.Counts.Ended[reflector.Forbidden] > before && st.Cause != nil
		})
		if _, ok := m.Get(object.Key{Namespace: s.namespace, Name: "a"}); !ok || m.Status().Live() {
			t.Error("the last state is not readable, or not marked stale")
		}
		grant(t, s, ann)
		m.reaches(t, w.create("b", "0"))
		if m.times("delete unknown a") != 0 || m.times("delete a") != 0 {
			t.Error("a lost right was taken for a deletion")
		}
		all.same(t, s, m)
	})
}

// W23: a token ends and is replaced in its file, and a mirror goes on.
func TestW23_TokensAreReplaced(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		w := writer{t, s}
		w.create("a", "0")
		grant(t, s, rbacv1.Subject{Kind: "ServiceAccount", Namespace: s.namespace, Name: "first"},
			rbacv1.Subject{Kind: "ServiceAccount", Namespace: s.namespace, Name: "second"})
		file := filepath.Join(t.TempDir(), "token")
		write := func(account string) {
			t.Helper()
			token, err := controlplane.Token(patience.Context(t), s.config, s.namespace, account, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("first")
		config := rest.AnonymousClientConfig(s.config)
		config.QPS, config.BearerTokenFile = -1, file
		m := startMirror(t, config, configMaps, mirrorOptions[*corev1.ConfigMap]{
			selection: object.Selection{Namespace: s.namespace}, reflector: reflector.Options[*corev1.ConfigMap]{MinWatchTimeout: time.Second},
		})
		if err := s.clientset(t).CoreV1().ServiceAccounts(s.namespace).Delete(patience.Context(t), "first", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		patience.Until(t, "the token to be refused", func() bool { return m.reflector().Counts.Ended[reflector.Unauthorized] > 0 })
		if m.Len() != 1 {
			t.Errorf("%d objects are readable meanwhile", m.Len())
		}
		write("second")
		m.reaches(t, w.create("b", "0"))
		if c := m.reflector().Counts; c.Lists != 1 {
			t.Errorf("%d lists", c.Lists)
		}
	})
}

// W23: a client certificate is replaced, and connections that are made from then on use it.
func TestW23_CertificatesAreReplaced(t *testing.T) {
	t.Parallel()
	s := genuine(t)
	w := writer{t, s}
	w.create("a", "0")
	grant(t, s, rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "new"})
	proxy := controlplane.StartProxy(t, s.address)
	var current atomic.Pointer[tls.Certificate]
	use := func(user string) {
		t.Helper()
		cert, key, err := s.plane.ClientCertificate(user, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		current.Store(&pair)
	}
	use("old")
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.config.CAData)
	transport := wire.NewTransport(&tls.Config{
		RootCAs: roots, MinVersion: tls.VersionTLS12,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return current.Load(), nil },
	})
	base, err := url.Parse(proxy.Config(s.config).Host)
	if err != nil {
		t.Fatal(err)
	}
	client, err := wire.NewWithTransport(base, transport, wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := startMirror(t, nil, configMaps, mirrorOptions[*corev1.ConfigMap]{
		selection: object.Selection{Namespace: s.namespace}, unsynced: true, client: client,
	})
	patience.Until(t, "the old one to be forbidden", func() bool { return m.reflector().Counts.Ended[reflector.Forbidden] > 0 })
	use("new")
	proxy.Cut()
	if err := m.WaitSynced(patience.Context(t)); err != nil {
		t.Fatal(err)
	}
	m.same(t, s)
}

// W09: the server's own queues are full, and a mirror waits as the server asks.
func TestW09_PriorityAndFairness(t *testing.T) {
	t.Parallel()
	s := genuine(t)
	w := writer{t, s}
	w.create("a", "0")
	api := s.clientset(t).FlowcontrolV1()
	none := int32(0)
	level := &flowcontrolv1.PriorityLevelConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "conformance-none"},
		Spec: flowcontrolv1.PriorityLevelConfigurationSpec{Type: flowcontrolv1.PriorityLevelEnablementLimited, Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
			NominalConcurrencyShares: &none, BorrowingLimitPercent: &none, LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject},
		}},
	}
	if _, err := api.PriorityLevelConfigurations().Create(patience.Context(t), level, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	flow := &flowcontrolv1.FlowSchema{
		ObjectMeta: metav1.ObjectMeta{Name: "conformance-none"},
		Spec: flowcontrolv1.FlowSchemaSpec{
			MatchingPrecedence: 2, PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "conformance-none"},
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects:      []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: "crowded"}}},
				ResourceRules: []flowcontrolv1.ResourcePolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, Namespaces: []string{"*"}}},
			}},
		},
	}
	if _, err := api.FlowSchemas().Create(patience.Context(t), flow, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // it may be deleted already
		_ = api.PriorityLevelConfigurations().Delete(context.Background(), "conformance-none", metav1.DeleteOptions{})
	})
	grant(t, s, rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "crowded"})
	config, err := s.plane.ConfigFor("crowded")
	if err != nil {
		t.Fatal(err)
	}
	client, err := wire.New(config, wire.Options{Retry: wire.Retry{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	source, err := stream.NewSource(wire.For(client, configMaps), object.Selection{Namespace: s.namespace}, stream.Options{})
	if err != nil {
		t.Fatal(err)
	}
	// Even where there is no seat, one request at a time is let in. A list of a version
	// that does not come sits there for three seconds.
	ctx, leave := context.WithCancel(t.Context())
	var sitting sync.WaitGroup
	defer func() { leave(); sitting.Wait() }()
	for range 2 {
		sitting.Go(func() {
			for ctx.Err() == nil {
				_, _ = source.Collect(ctx, object.ListOptions{Version: "999999999"}) // refused, one way or the other
			}
		})
	}
	patience.Until(t, "429", func() bool { // until the server has learnt of the rule
		_, err := source.Collect(patience.Context(t), object.ListOptions{})
		var refused *wire.Error
		return err != nil && asError(err, &refused) && refused.Code == 429 && refused.RetryAfter > 0
	})
	m := startMirror(t, config, configMaps, mirrorOptions[*corev1.ConfigMap]{
		selection: object.Selection{Namespace: s.namespace}, unsynced: true,
		reflector: reflector.Options[*corev1.ConfigMap]{MinWatchTimeout: time.Second}, // it asks for a seat often
	})
	patience.Until(t, "to be throttled", func() bool { return m.reflector().Counts.Ended[reflector.Throttled] > 0 })
	leave()
	if err := api.FlowSchemas().Delete(patience.Context(t), "conformance-none", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := m.WaitSynced(patience.Context(t)); err != nil {
		t.Fatal(err)
	}
}

// W23: a custom resource is defined, removed and defined again while it is watched.
func TestW23_DefinitionsComeAndGo(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s server) {
		api, err := dynamic.NewForConfig(s.config)
		if err != nil {
			t.Fatal(err)
		}
		crds := api.Resource(crdResource)
		define := func() {
			t.Helper()
			crd := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(definition("gone.example.com", "pebbles", "Pebble")), &crd.Object); err != nil {
				t.Fatal(err)
			}
			patience.Until(t, "it to be defined", func() bool {
				_, err := crds.Create(patience.Context(t), crd, metav1.CreateOptions{})
				return err == nil
			})
		}
		pebbles := object.Resource{Group: "gone.example.com", Version: "v1", Resource: "pebbles", Kind: "Pebble", Namespaced: true}
		put := func(name string) (created *unstructured.Unstructured) {
			t.Helper()
			pebble := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"colour": "grey"}}}
			pebble.SetGroupVersionKind(pebbles.GVK())
			pebble.SetName(name)
			patience.Until(t, "it to be served", func() bool {
				var err error
				created, err = api.Resource(pebbles.GVR()).Namespace(s.namespace).Create(patience.Context(t), pebble, metav1.CreateOptions{})
				return err == nil
			})
			return created
		}
		m := startMirror(t, s.config, wire.Unstructured(pebbles), mirrorOptions[*unstructured.Unstructured]{
			unsynced: true, reflector: reflector.Options[*unstructured.Unstructured]{RemovedAfter: 500 * time.Millisecond},
		})
		patience.Until(t, "404", func() bool { return m.reflector().Counts.Ended[reflector.NotFound] > 0 })
		adapted := startAdapter(t, byWire(t, s.config, wire.Unstructured(pebbles), s.namespace), &unstructured.Unstructured{})
		reconciled := startController(t, m)
		same := func() {
			t.Helper()
			adapted.has(t, "client-go's informer", m.versions())
			reconciled.reconciled(t, m.versions())
		}
		define()
		t.Cleanup(func() {
			_ = crds.Delete(context.Background(), "pebbles.gone.example.com", metav1.DeleteOptions{}) // deleted already unless the test failed
		})
		m.reaches(t, put("one"))
		m.watches(t)
		same()
		if err := crds.Delete(patience.Context(t), "pebbles.gone.example.com", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		patience.Until(t, "a deletion", func() bool { return m.times("delete one")+m.times("delete unknown one") == 1 && m.Len() == 0 })
		same()
		define()
		m.reaches(t, put("two"))
		m.receives(t, "add two")
		same()
		if err := crds.Delete(patience.Context(t), "pebbles.gone.example.com", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	})
}
