package adapters

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	theirdynamic "k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	theirmetadata "k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/clientgo/factory/dynamicinformer"
	"github.com/tarnproject/tarn/clientgo/factory/metadatainformer"
	"github.com/tarnproject/tarn/e2e/patience"
	"github.com/tarnproject/tarn/e2e/sample"
	"github.com/tarnproject/tarn/wire"
)

// anyFactory is what the dynamic and the metadata factories have in common.
type anyFactory interface {
	ForResource(schema.GroupVersionResource) informers.GenericInformer
	Start(<-chan struct{})
	WaitForCacheSync(<-chan struct{}) map[schema.GroupVersionResource]bool
	Shutdown()
}

// factories are those of one sort; all have to say the same.
type factories struct {
	theirs, byClient, byWire anyFactory
}

var mirrored = []schema.GroupVersionResource{sample.Resource, appsv1.SchemeGroupVersion.WithResource("deployments")}

func TestDynamicFactoriesAndTheirListersAgreeWithClientGos(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s server) {
		client := must[dynamic.Interface](t)(dynamic.NewForConfig(s.config))
		agree(t, s, factories{
			theirs:   theirdynamic.NewDynamicSharedInformerFactory(client, time.Hour),
			byClient: dynamicinformer.NewDynamicSharedInformerFactory(client, time.Hour),
			byWire:   dynamicinformer.NewDynamicSharedInformerFactory(nil, time.Hour, dynamicinformer.WithClient(s.wire(t))),
		})
	})
}

func TestMetadataFactoriesAndTheirListersAgreeWithClientGos(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s server) {
		client := must[metadata.Interface](t)(metadata.NewForConfig(s.config))
		agree(t, s, factories{
			theirs:   theirmetadata.NewSharedInformerFactory(client, time.Hour),
			byClient: metadatainformer.NewSharedInformerFactory(client, time.Hour),
			byWire:   metadatainformer.NewSharedInformerFactoryWithOptions(nil, time.Hour, metadatainformer.WithClient(s.wire(t))),
		})
	})
}

func (s server) wire(t *testing.T) *wire.Client {
	t.Helper()
	client := must[*wire.Client](t)(wire.New(s.config, wire.Options{}))
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// agree lets Foos and Deployments come, change, and go, and compares after each step what
// the listers of all factories say.
func agree(t *testing.T, s server, f factories) {
	site := newSite(t, s, "writer", func(*testing.T, server, string) program { return nil })
	ctx, namespace := patience.Context(t), site.namespace
	write := func(name string, replicas int32) {
		t.Helper()
		if err := site.create(ctx, name, replicas, map[string]string{"replicas": fmt.Sprint(replicas)}); err != nil {
			t.Fatal(err)
		}
		foo := must[*sample.Foo](t)(site.foos.Get(ctx, name, metav1.GetOptions{}))
		d := sample.DeploymentOf(foo)
		d.Labels = foo.Labels
		must[*appsv1.Deployment](t)(site.deployments.Create(ctx, d, metav1.CreateOptions{}))
	}
	for _, name := range []string{"a", "b", "c"} {
		write(name, 1)
	}

	all := map[string]anyFactory{"theirs": f.theirs, "ours by the client": f.byClient, "ours by the wire": f.byWire}
	stop, cancel := context.WithCancel(t.Context())
	for name, factory := range all {
		for _, gvr := range mirrored {
			want := tarn
			if name == "theirs" {
				want = clientGoCache
			}
			if got := packageOf(factory.ForResource(gvr).Informer()); got != want {
				t.Errorf("the informer of %s is of %s", name, got)
			}
		}
		factory.Start(stop.Done())
		defer factory.Shutdown()
	}
	defer cancel()
	for name, factory := range all {
		for gvr, synced := range factory.WaitForCacheSync(ctx.Done()) {
			if !synced {
				t.Fatalf("%s never had %s", name, gvr)
			}
		}
	}
	compare := func(when string, names ...string) {
		t.Helper()
		for _, gvr := range mirrored {
			foos, deployments, err := site.objects(ctx)
			if err != nil {
				t.Fatal(err)
			}
			there := versions{}
			for name, foo := range foos {
				if gvr == sample.Resource {
					there[name] = foo.ResourceVersion
				}
			}
			for name, d := range deployments {
				if gvr != sample.Resource {
					there[name] = d.ResourceVersion
				}
			}
			if len(there) != len(names) {
				t.Fatalf("%s: the server has %v; want %v", when, there, names)
			}
			for name, factory := range all {
				patience.Until(t, fmt.Sprintf("%s: %s of %s are those of the server", when, gvr.Resource, name), func() bool {
					held := versions{}
					for _, obj := range listed(t, factory.ForResource(gvr).Lister().ByNamespace(namespace), labels.Everything()) {
						held[nameOf(obj)] = versionOf(obj)
					}
					return cmp.Equal(there, held)
				})
			}
			for name, factory := range all {
				for _, selector := range []labels.Selector{labels.Everything(), labels.SelectorFromSet(labels.Set{"replicas": "1"})} {
					want := listed(t, f.theirs.ForResource(gvr).Lister().ByNamespace(namespace), selector)
					got := listed(t, factory.ForResource(gvr).Lister().ByNamespace(namespace), selector)
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("%s: %s by %q, theirs and %s (+):\n%s", when, gvr.Resource, selector, name, diff)
					}
				}
				for _, key := range append(names, "nothing") {
					want, err := f.theirs.ForResource(gvr).Lister().ByNamespace(namespace).Get(key)
					got, gotErr := factory.ForResource(gvr).Lister().ByNamespace(namespace).Get(key)
					if diff := cmp.Diff(want, got); diff != "" || apierrors.ReasonForError(err) != apierrors.ReasonForError(gotErr) {
						t.Errorf("%s: Get of %s, theirs and %s (+): %v, %v\n%s", when, key, name, err, gotErr, diff)
					}
				}
			}
		}
	}
	compare("at the start", "a", "b", "c")
	write("d", 2)
	if err := site.scale(ctx, "a", 5); err != nil {
		t.Fatal(err)
	}
	if err := site.foos.Delete(ctx, "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := site.deployments.Delete(ctx, "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	compare("after changes", "a", "c", "d")
	s.proxy.Cut()
	write("e", 1)
	compare("after the connections were cut", "a", "c", "d", "e")
}

// listed returns what a lister has, in the order of names.
func listed(t *testing.T, lister cache.GenericNamespaceLister, selector labels.Selector) []runtime.Object {
	t.Helper()
	list := must[[]runtime.Object](t)(lister.List(selector))
	slices.SortFunc(list, func(a, b runtime.Object) int { return strings.Compare(nameOf(a), nameOf(b)) })
	return list
}

func nameOf(obj runtime.Object) string    { return accessor(obj).GetName() }
func versionOf(obj runtime.Object) string { return accessor(obj).GetResourceVersion() }

func accessor(obj runtime.Object) metav1.Object {
	m, err := meta.Accessor(obj)
	if err != nil {
		panic(err) // all that is listed has metadata
	}
	return m
}
