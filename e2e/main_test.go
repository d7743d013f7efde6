package e2e

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tarnproject/tarn/e2e/controlplane"
	"github.com/tarnproject/tarn/e2e/patience"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/wire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// shared is the control plane of this package's tests.
var shared controlplane.Shared

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

func clientset(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return clients
}

// namespace makes a namespace for one test.
func namespace(t *testing.T, config *rest.Config) string {
	t.Helper()
	ns, err := clientset(t, config).CoreV1().Namespaces().Create(patience.Context(t),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

// writer writes config maps with client-go, so that what Tarn reads was not written by it.
type writer struct {
	t         *testing.T
	clients   *kubernetes.Clientset
	namespace string
}

func (w writer) create(name, value string) *corev1.ConfigMap {
	w.t.Helper()
	cm, err := w.clients.CoreV1().ConfigMaps(w.namespace).Create(patience.Context(w.t), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"value": value},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return cm
}

func (w writer) update(name, value string) *corev1.ConfigMap {
	w.t.Helper()
	cm, err := w.clients.CoreV1().ConfigMaps(w.namespace).Update(patience.Context(w.t), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"value": value},
	}, metav1.UpdateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return cm
}

func (w writer) delete(name string) {
	w.t.Helper()
	if err := w.clients.CoreV1().ConfigMaps(w.namespace).Delete(patience.Context(w.t), name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// mirror is an informer of the config maps of a namespace, which runs until the test ends,
// and what its subscriber was told.
type mirror struct {
	*informer.Informer[*corev1.ConfigMap]

	mu     sync.Mutex // guards what follows
	told   []string
	errors []string
}

// quick makes failures cost little time.
var quick = reflector.Backoff{Min: 10 * time.Millisecond, Max: 100 * time.Millisecond}

func startMirror(t *testing.T, config *rest.Config, namespace string, encoding wire.Encoding, streaming reflector.Mode) *mirror {
	t.Helper()
	client, err := wire.New(config, wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	// The informer asks for its own selection, the source has none.
	source, err := wire.For(client, wire.MustOf[*corev1.ConfigMap]().Encoded(encoding)).Source(object.Selection{}, wire.SourceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m := &mirror{}
	m.Informer, err = informer.New(source, object.Meta[*corev1.ConfigMap](), informer.Options[*corev1.ConfigMap]{
		Selection: object.Selection{Namespace: namespace},
		Reflector: reflector.Options[*corev1.ConfigMap]{Streaming: streaming, Backoff: quick, OnError: m.failed},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Subscribe(informer.Handler[*corev1.ConfigMap]{
		OnAdd:    func(cm *corev1.ConfigMap, _ bool) { m.tell("add", cm) },
		OnUpdate: func(_, cm *corev1.ConfigMap) { m.tell("update", cm) },
		OnDelete: func(cm *corev1.ConfigMap, unknown bool) {
			if unknown {
				m.tell("delete, final state unknown,", cm)
			} else {
				m.tell("delete", cm)
			}
		},
	}, informer.SubOptions[*corev1.ConfigMap]{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("told: %q\n%s\nfailures:\n%s", m.told, m.Status(), strings.Join(m.errors, "\n"))
		}
	})
	if err := m.WaitSynced(patience.Context(t)); err != nil {
		t.Fatal(err)
	}
	return m
}

// failed keeps what went wrong, and when.
func (m *mirror) failed(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.errors = append(m.errors, time.Now().Format(time.TimeOnly)+" "+err.Error())
}

func (m *mirror) tell(what string, cm *corev1.ConfigMap) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = append(m.told, fmt.Sprintf("%s %s=%s", what, cm.Name, cm.Data["value"]))
}

// wasTold waits until the subscriber has been told something.
func (m *mirror) wasTold(t *testing.T, what string) {
	t.Helper()
	patience.Until(t, "to be told "+what, func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, s := range m.told {
			if s == what {
				return true
			}
		}
		return false
	})
}

// reaches waits until the mirror has an object as it was written.
func (m *mirror) reaches(t *testing.T, cm *corev1.ConfigMap) {
	t.Helper()
	if err := m.WaitForKey(patience.Context(t), object.Key{Namespace: cm.Namespace, Name: cm.Name}, object.Version(cm.ResourceVersion)); err != nil {
		t.Fatal(err)
	}
}

// reflector returns what the only reflector of the mirror shows.
func (m *mirror) reflector() reflector.Status { return m.Status().Sources[0].Reflector }

// watches waits until a watch is open.
func (m *mirror) watches(t *testing.T) {
	t.Helper()
	patience.Until(t, "an open watch", func() bool {
		s := m.reflector()
		return s.State == reflector.Watching && s.Connected
	})
}

// same checks that the mirror is what a fresh, consistent list by client-go has.
func (m *mirror) same(t *testing.T, clients *kubernetes.Clientset, namespace string) {
	t.Helper()
	list, err := clients.CoreV1().ConfigMaps(namespace).List(patience.Context(t), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]*corev1.ConfigMap{}
	for i := range list.Items {
		want[list.Items[i].Name] = &list.Items[i]
	}
	var got map[string]*corev1.ConfigMap
	matches := func() bool {
		got = map[string]*corev1.ConfigMap{}
		snap := m.Snapshot()
		defer snap.Release()
		for cm := range snap.All() {
			cm = cm.DeepCopy()
			cm.TypeMeta = metav1.TypeMeta{}
			got[cm.Name] = cm
		}
		return reflect.DeepEqual(got, want)
	}
	defer func() {
		if t.Failed() {
			t.Log(cmp.Diff(want, got))
		}
	}()
	patience.Until(t, "the mirror to be what a list has", matches)
}
