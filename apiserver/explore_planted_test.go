package apiserver_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarnproject/tarn/apiserver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// An exploration that finds nothing proves little unless it finds what is there. Each of these
// controllers has a bug that no test without crashes shows, and a twin without it.

// world is what the controllers manage outside of the cluster. It survives crashes.
type world struct {
	mu       sync.Mutex // guards the rest
	records  map[string]bool
	released int
	tokens   int
}

func (w *world) set(name string, present bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.records[name] && !present {
		w.released++
	}
	w.records[name] = present
}

func (w *world) has(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.records[name]
}

func (w *world) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.released++
}

func (w *world) token() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tokens++
	return fmt.Sprint("token-", w.tokens)
}

// kit is what a controller has during one start of its program.
type kit struct {
	bug      bool
	world    *world
	parents  typed.ConfigMapInterface
	children typed.SecretInterface
	memory   map[string]string // lost in a crash
	cache    map[string]bool   // names of children, by a watch
}

// parent returns the parent, or nil.
func (k *kit) parent(ctx context.Context) (*corev1.ConfigMap, error) {
	p, err := k.parents.Get(ctx, "parent", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return p, err
}

// annotate sets annotations of the parent if they differ.
func (k *kit) annotate(ctx context.Context, p *corev1.ConfigMap, pairs ...string) error {
	changed := false
	for i := 0; i < len(pairs); i += 2 {
		changed = changed || p.Annotations[pairs[i]] != pairs[i+1]
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, pairs[i], pairs[i+1])
	}
	if !changed {
		return nil
	}
	updated, err := k.parents.Update(ctx, p, metav1.UpdateOptions{})
	if err == nil {
		*p = *updated
	}
	return err
}

func (k *kit) finalizers(ctx context.Context, p *corev1.ConfigMap, finalizers ...string) error {
	if slices.Equal(p.Finalizers, finalizers) {
		return nil
	}
	p.Finalizers = finalizers
	updated, err := k.parents.Update(ctx, p, metav1.UpdateOptions{})
	if err == nil {
		*p = *updated
	}
	return err
}

// create creates a child, with a generated name if the name ends in a dash.
func (k *kit) create(ctx context.Context, name string, data ...string) error {
	child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"of": "parent"}}, StringData: map[string]string{}}
	if strings.HasSuffix(name, "-") {
		child.Name, child.GenerateName = "", name
	}
	child.Data = map[string][]byte{}
	for i := 0; i < len(data); i += 2 {
		child.Data[data[i]] = []byte(data[i+1])
	}
	_, err := k.children.Create(ctx, child, metav1.CreateOptions{})
	return err
}

// ensure creates a child unless it exists.
func (k *kit) ensure(ctx context.Context, name string, data ...string) error {
	_, err := k.children.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		err = k.create(ctx, name, data...)
	}
	return err
}

func (k *kit) list(ctx context.Context) ([]corev1.Secret, error) {
	list, err := k.children.List(ctx, metav1.ListOptions{LabelSelector: "of=parent"})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// program returns a program that calls a reconcile function every second.
func (p *planted) program(bug bool, w *world) func(context.Context, *rest.Config) error {
	return func(ctx context.Context, cfg *rest.Config) error {
		clients, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			return err
		}
		k := &kit{bug: bug, world: w, parents: clients.CoreV1().ConfigMaps("default"), children: clients.CoreV1().Secrets("default"), memory: map[string]string{}, cache: map[string]bool{}}
		var events <-chan string
		if p.opts.StaleCache > 0 {
			w, err := k.children.Watch(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			defer w.Stop()
			names := make(chan string)
			events = names
			go func() {
				defer close(names)
				for e := range w.ResultChan() {
					child, ok := e.Object.(*corev1.Secret)
					if !ok {
						return // an error
					}
					select {
					case names <- child.Name:
					case <-ctx.Done():
						return
					}
				}
			}()
		}
		for tick := time.After(0); ; {
			select {
			case <-ctx.Done():
				if events != nil {
					for range events { // until it is closed
					}
				}
				return nil
			case name, open := <-events:
				if !open {
					return nil
				}
				k.cache[name] = true
			case <-tick:
				if err := p.reconcile(ctx, k); err != nil {
					k.memory["error"] = err.Error() // retried
				}
				tick = time.After(time.Second)
			}
		}
	}
}

// planted is a controller with a bug, and what a user does and expects.
type planted struct {
	name      string
	opts      apiserver.ExploreOptions
	found     string // the schedule that finds it
	reconcile func(ctx context.Context, k *kit) error
	test      func(u *user)
}

// user acts on the server and checks the result.
type user struct {
	testing.TB
	server *apiserver.Server
	world  *world
}

func parent(data ...string) *corev1.ConfigMap {
	p := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "parent"}, Data: map[string]string{}}
	for i := 0; i < len(data); i += 2 {
		p.Data[data[i]] = data[i+1]
	}
	return p
}

func (u *user) pause(d time.Duration) { <-time.After(d) }

func (u *user) create(data ...string) {
	fill(u, u.server, parent(data...))
	u.pause(30 * time.Second)
}

func (u *user) get() *corev1.ConfigMap {
	p, err := u.server.Get(corev1.SchemeGroupVersion.WithResource("configmaps"), key("parent"))
	if err != nil {
		u.Fatal(err)
	}
	return p.(*corev1.ConfigMap).DeepCopy()
}

func (u *user) change(name, value string) {
	for { // the controller may write at the same time
		p := u.get()
		p.Data[name] = value
		if _, err := u.server.Update(p); err == nil {
			break
		} else if !apierrors.IsConflict(err) {
			u.Fatal(err)
		}
	}
	u.pause(30 * time.Second)
}

func (u *user) delete() {
	if err := u.server.Delete(parent()); err != nil {
		u.Fatal(err)
	}
	u.pause(30 * time.Second)
}

func (u *user) annotated(name, want string) {
	if got := u.get().Annotations[name]; got != want {
		u.Errorf("annotation %s is %q, want %q", name, got, want)
	}
}

// children checks the number of children, and the name of the first.
func (u *user) children(n int, first string) []string {
	var names []string
	for line := range strings.Lines(string(u.server.Dump("secrets"))) {
		if name, ok := strings.CutPrefix(line, "  name: "); ok {
			names = append(names, strings.TrimSpace(name))
		}
	}
	if len(names) != n || n > 0 && names[0] != first {
		u.Errorf("children %v, want %d and %q first", names, n, first)
	}
	return names
}

func (u *user) child(name, field string) string {
	s, err := u.server.Get(corev1.SchemeGroupVersion.WithResource("secrets"), key(name))
	if err != nil {
		u.Fatal(err)
	}
	return string(s.(*corev1.Secret).Data[field])
}

func TestExploreFindsPlantedBugs(t *testing.T) {
	for _, p := range plantedBugs {
		t.Run(p.name, func(t *testing.T) {
			explore := func(bug bool) (string, string, int) {
				return apiserver.ExploreQuietly(t, p.opts, func(t testing.TB, server *apiserver.Server) {
					w := &world{records: map[string]bool{}}
					server.Supervise(t, p.program(bug, w))
					u := &user{t, server, w}
					u.pause(5 * time.Second)
					p.test(u)
				})
			}
			if failed, report, runs := explore(true); failed != p.found {
				t.Errorf("found with %q in %d runs, want %q: %s", failed, runs, p.found, report)
			}
			if failed, report, _ := explore(false); failed != "" {
				t.Errorf("the correct twin fails with %s: %s", failed, report)
			}
		})
	}
}
