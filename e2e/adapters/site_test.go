package adapters

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/e2e/patience"
	"github.com/tarnproject/tarn/e2e/sample"
)

// program is one that keeps a Deployment for each Foo of a namespace.
type program interface {
	// run runs it until the context ends.
	run(ctx context.Context) error
	// listen adds a handler to its informer of Foos.
	listen(ctx context.Context, h cache.ResourceEventHandler) error
	// cached returns what its caches hold.
	cached(ctx context.Context) (versions, error)
	// check looks whether what should be under it is under it.
	check(t *testing.T)
}

// versions are the resource versions of objects by their kind and name.
type versions map[string]string

func (v versions) add(kind string, object metav1.Object) {
	v[kind+" "+object.GetName()] = object.GetResourceVersion()
}

// site is a program in its namespace, and clients that do not share its troubles.
type site struct {
	name        string
	namespace   string
	program     program
	foos        sample.FooInterface
	deployments appsclient.DeploymentInterface
	observed    *observed
}

// observed is what the program's informer delivered that is worth comparing.
type observed struct {
	mu         sync.Mutex      // guards what follows
	tombstones map[string]bool // Foos whose deletion was not observed
	reborn     map[string]bool // Foos that an update has given another UID
}

func newObserved() *observed {
	return &observed{tombstones: map[string]bool{}, reborn: map[string]bool{}}
}

// OnAdd implements cache.ResourceEventHandler.
func (l *observed) OnAdd(any, bool) {}

// OnUpdate implements cache.ResourceEventHandler.
func (l *observed) OnUpdate(before, after any) {
	if after := after.(*sample.Foo); before.(*sample.Foo).UID != after.UID {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.reborn[after.Name] = true
	}
}

// OnDelete implements cache.ResourceEventHandler.
func (l *observed) OnDelete(obj any) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.tombstones[tombstone.Obj.(*sample.Foo).Name] = true
	}
}

// names returns both sets in order.
func (l *observed) names() (tombstones, reborn []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.tombstones)), slices.Sorted(maps.Keys(l.reborn))
}

func newSite(t *testing.T, s server, name string, make func(*testing.T, server, string) program) *site {
	t.Helper()
	namespace := s.newNamespace(t)
	return &site{
		name: name, namespace: namespace, program: make(t, s, namespace), observed: newObserved(),
		foos: s.sample(t).SamplecontrollerV1alpha1().Foos(namespace), deployments: s.kube(t).AppsV1().Deployments(namespace),
	}
}

// run runs the program until the returned function is called.
func (s *site) run(t *testing.T) (stop func()) {
	t.Helper()
	if err := s.program.listen(t.Context(), s.observed); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- s.program.run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
	})
}

func (s *site) create(ctx context.Context, name string, replicas int32, labels map[string]string) error {
	_, err := s.foos.Create(ctx, &sample.Foo{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       sample.FooSpec{DeploymentName: name, Replicas: &replicas},
	}, metav1.CreateOptions{})
	return err
}

// scale changes what a Foo asks for. The program may write its status meanwhile.
func (s *site) scale(ctx context.Context, name string, replicas int32) error {
	return onConflict(func() error {
		foo, err := s.foos.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		foo.Spec.Replicas = &replicas
		_, err = s.foos.Update(ctx, foo, metav1.UpdateOptions{})
		return err
	})
}

// objects returns the Foos and Deployments that there are.
func (s *site) objects(ctx context.Context) (foos map[string]*sample.Foo, deployments map[string]*appsv1.Deployment, err error) {
	fooList, err := s.foos.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	deploymentList, err := s.deployments.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	foos, deployments = map[string]*sample.Foo{}, map[string]*appsv1.Deployment{}
	for i := range fooList.Items {
		foos[fooList.Items[i].Name] = &fooList.Items[i]
	}
	for i := range deploymentList.Items {
		deployments[deploymentList.Items[i].Name] = &deploymentList.Items[i]
	}
	return foos, deployments, nil
}

// want is a Foo that should be there, and what should have become of it.
type want struct {
	replicas, available int32
	ignored             bool
}

// differs says in what the cluster is not as it should be.
func (s *site) differs(ctx context.Context, wants map[string]want) (string, error) {
	foos, deployments, err := s.objects(ctx)
	if err != nil {
		return "", err
	}
	got, expected := map[string]string{}, map[string]string{}
	for name, w := range wants {
		expected["Foo "+name] = fmt.Sprintf("asks for %d, has %d", w.replicas, w.available)
		if !w.ignored {
			expected["Deployment "+name] = fmt.Sprintf("%d replicas for its Foo", w.replicas)
		}
	}
	for name, foo := range foos {
		got["Foo "+name] = fmt.Sprintf("asks for %d, has %d", *foo.Spec.Replicas, foo.Status.AvailableReplicas)
	}
	for name, d := range deployments {
		owner := "nobody"
		if foo := foos[name]; foo != nil && metav1.IsControlledBy(d, foo) {
			owner = "its Foo"
		}
		got["Deployment "+name] = fmt.Sprintf("%d replicas for %s", *d.Spec.Replicas, owner)
	}
	return cmp.Diff(expected, got), nil
}

// behind says in what the program's caches differ from the server.
func (s *site) behind(ctx context.Context) (string, error) {
	foos, deployments, err := s.objects(ctx)
	if err != nil {
		return "", err
	}
	there := versions{}
	for _, foo := range foos {
		there.add("Foo", foo)
	}
	for _, d := range deployments {
		there.add("Deployment", d)
	}
	held, err := s.program.cached(ctx)
	return cmp.Diff(there, held), err
}

// left returns what is in the cluster, without what no two clusters have in common.
func (s *site) left(ctx context.Context) (map[string]any, error) {
	foos, deployments, err := s.objects(ctx)
	if err != nil {
		return nil, err
	}
	left := map[string]any{}
	for name, foo := range foos {
		plain(&foo.ObjectMeta)
		left["Foo "+name] = foo
	}
	for name, d := range deployments {
		plain(&d.ObjectMeta)
		d.Generation = 0 // several changes may be made at once
		left["Deployment "+name] = d
	}
	return left, nil
}

func plain(meta *metav1.ObjectMeta) {
	meta.Namespace, meta.UID, meta.ResourceVersion = "", "", ""
	meta.CreationTimestamp, meta.ManagedFields = metav1.Time{}, nil
	for i := range meta.OwnerReferences {
		meta.OwnerReferences[i].UID = ""
	}
}

// together does something at all sites at once.
func together(t *testing.T, sites []*site, do func(context.Context, *site) error) {
	t.Helper()
	ctx := patience.Context(t)
	var wg sync.WaitGroup
	errs := make([]error, len(sites))
	for i, s := range sites {
		wg.Go(func() {
			if err := do(ctx, s); err != nil {
				errs[i] = fmt.Errorf("%s: %w", s.name, err)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// until waits until nothing differs at any site.
func until(t *testing.T, sites []*site, what string, differs func(context.Context, *site) (string, error)) {
	t.Helper()
	together(t, sites, func(ctx context.Context, s *site) error {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			diff, err := differs(ctx, s)
			if err == nil && diff == "" {
				return nil
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s never came about: %w (-want +got)\n%s", what, err, diff)
			case <-tick.C:
			}
		}
	})
}
