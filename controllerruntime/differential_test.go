package controllerruntime_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controllerruntime"
	"github.com/tarnproject/tarn/internal/testkit"
)

// random makes options, objects and reads.
type random struct{ *rand.Rand }

func pick[T any](r random, from ...T) T { return from[r.IntN(len(from))] }

func (r random) labels() labels.Selector {
	return pick(r, nil, nil, nil, labels.Everything(), labels.SelectorFromSet(labels.Set{"app": "x"}), labels.SelectorFromSet(labels.Set{"app": "y"}))
}

func (r random) fields() fields.Selector {
	return pick(r, nil, nil, nil, fields.Everything(), fields.OneTermEqualSelector("metadata.name", "n1"), fields.OneTermNotEqualSelector("metadata.name", "n1"),
		fields.OneTermEqualSelector("metadata.namespace", "a"))
}

func (r random) transform() toolscache.TransformFunc {
	mark := fmt.Sprint("t", r.IntN(3))
	return pick(r, nil, nil, nil, func(obj any) (any, error) {
		accessor, err := apimeta.Accessor(obj)
		if err == nil {
			accessor.SetAnnotations(map[string]string{"transformed": mark})
		}
		return obj, err
	})
}

func (r random) noCopy() *bool { return pick(r, nil, nil, nil, new(true), new(false)) }

func (r random) config() cache.Config {
	return cache.Config{LabelSelector: r.labels(), FieldSelector: r.fields(), Transform: r.transform(), UnsafeDisableDeepCopy: r.noCopy()}
}

func (r random) namespaces() map[string]cache.Config {
	configs := map[string]cache.Config{}
	for _, ns := range []string{"a", "b", "c", cache.AllNamespaces} {
		if r.IntN(3) == 0 {
			configs[ns] = r.config()
		}
	}
	return pick(r, nil, configs)
}

func (r random) options() cache.Options {
	opts := cache.Options{
		DefaultNamespaces: r.namespaces(), DefaultLabelSelector: r.labels(), DefaultTransform: r.transform(), DefaultUnsafeDisableDeepCopy: r.noCopy(),
	}
	if opts.DefaultNamespaces == nil {
		opts.DefaultFieldSelector = pick(r, nil, fields.OneTermEqualSelector("metadata.name", "n1"))
	}
	if r.IntN(2) == 0 {
		opts.ByObject = map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {
			Namespaces: r.namespaces(), Label: r.labels(), Field: r.fields(), Transform: r.transform(), UnsafeDisableDeepCopy: r.noCopy(),
		}}
	}
	return opts
}

var configMaps = corev1.SchemeGroupVersion.WithKind("ConfigMap")

// representations are typed and unstructured objects. client-go's watch of metadata may leak a goroutine when it ends,
// so controller-runtime's cache does not always end in a bubble if it has one.
const representations = 2

// examples are an object and a list of each representation of a kind.
func examples(as int, gvk schema.GroupVersionKind) (client.Object, client.ObjectList) {
	lists := gvk.GroupVersion().WithKind(gvk.Kind + "List")
	if as == 0 {
		if gvk.Kind == "Namespace" {
			return &corev1.Namespace{}, &corev1.NamespaceList{}
		}
		return &corev1.ConfigMap{}, &corev1.ConfigMapList{}
	}
	obj, list := &unstructured.Unstructured{}, &unstructured.UnstructuredList{}
	obj.SetGroupVersionKind(gvk)
	list.SetGroupVersionKind(lists)
	return obj, list
}

// sides are controller-runtime's cache and Tarn's, with the same options.
type sides [2]cache.Cache

func (s sides) get(t *testing.T, as int, gvk schema.GroupVersionKind, key client.ObjectKey, opts ...client.GetOption) {
	t.Helper()
	var objs [2]client.Object
	var errs [2]error
	for i, c := range s {
		objs[i], _ = examples(as, gvk)
		errs[i] = c.Get(t.Context(), key, objs[i], opts...)
		objs[i].GetObjectKind().SetGroupVersionKind(gvk) // controller-runtime sets it unless copies are disabled
	}
	if fmt.Sprint(errs[0]) != fmt.Sprint(errs[1]) {
		t.Errorf("get %v as %T: controller-runtime returns %v, Tarn %v", key, objs[0], errs[0], errs[1])
	} else if errs[0] == nil && !apiequality.Semantic.DeepEqual(objs[0], objs[1]) {
		t.Errorf("get %v: controller-runtime returns %+v, Tarn %+v", key, objs[0], objs[1])
	}
}

func (s sides) list(t *testing.T, as int, gvk schema.GroupVersionKind, opts ...client.ListOption) {
	t.Helper()
	var items [2][]runtime.Object
	var errs [2]error
	for i, c := range s {
		_, list := examples(as, gvk)
		if errs[i] = c.List(t.Context(), list, opts...); errs[i] != nil {
			continue
		}
		var err error
		if items[i], err = apimeta.ExtractList(list); err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(items[i], func(a, b runtime.Object) int {
			x, y := a.(client.Object), b.(client.Object)
			return cmp.Or(cmp.Compare(x.GetNamespace(), y.GetNamespace()), cmp.Compare(x.GetName(), y.GetName()))
		})
	}
	what := (&client.ListOptions{}).ApplyOptions(opts)
	switch {
	case fmt.Sprint(errs[0]) != fmt.Sprint(errs[1]):
		t.Errorf("list %+v: controller-runtime returns %v, Tarn %v", what, errs[0], errs[1])
	case what.Limit > 0: // any of the objects, as many
		if len(items[0]) != len(items[1]) {
			t.Errorf("list %+v: controller-runtime returns %d objects, Tarn %d", what, len(items[0]), len(items[1]))
		}
	case !apiequality.Semantic.DeepEqual(items[0], items[1]):
		t.Errorf("list %+v: controller-runtime returns %+v, Tarn %+v", what, items[0], items[1])
	}
}

// heard are the events of handlers, by key.
type heard map[string][]string

func listenTo(t *testing.T, c cache.Cache, as int, gvk schema.GroupVersionKind) heard {
	t.Helper()
	obj, _ := examples(as, gvk)
	inf, err := c.GetInformer(t.Context(), obj)
	if err != nil {
		t.Fatal(err)
	}
	events := heard{}
	note := func(what string, got any) {
		if d, ok := got.(toolscache.DeletedFinalStateUnknown); ok {
			got = d.Obj
		}
		o := got.(client.Object)
		key := client.ObjectKeyFromObject(o).String()
		events[key] = append(events[key], fmt.Sprintf("%s %s %T %v", what, o.GetResourceVersion(), o, o.GetAnnotations()))
	}
	if _, err := inf.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(obj any, initial bool) { note(fmt.Sprint("add ", initial), obj) },
		UpdateFunc: func(old, obj any) { note("update from "+old.(client.Object).GetResourceVersion(), obj) },
		DeleteFunc: func(obj any) { note("delete", obj) },
	}); err != nil {
		t.Fatal(err)
	}
	return events
}

// Whatever the options, reads and events are those of controller-runtime's cache.
func TestTheCacheIsControllerRuntimesWithAnyOptions(t *testing.T) {
	for seed := range 30 {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			bubble(t, func(t *testing.T, server *apiserver.Server) {
				compareCaches(t, server, random{rand.New(rand.NewPCG(uint64(seed), 1))})
			})
		})
	}
}

func compareCaches(t *testing.T, server *apiserver.Server, r random) {
	namespaces(t, server, "a", "b", "c", "d")
	object := func() *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: pick(r, "a", "b", "c", "d"), Name: fmt.Sprint("n", r.IntN(3)), Labels: map[string]string{"app": pick(r, "x", "y")}},
			Data:       map[string]string{"value": fmt.Sprint(r.IntN(3))},
		}
	}
	write := func() {
		obj := object()
		if _, err := server.Create(obj); err == nil {
			return
		}
		if r.IntN(3) == 0 {
			_ = server.Delete(obj)
		} else if _, err := server.Update(obj); err != nil {
			t.Error(err)
		}
	}
	for range 8 {
		write()
	}
	opts := r.options()
	var both sides
	for i, make := range []cache.NewCacheFunc{cache.New, controllerruntime.NewCache} {
		c, err := make(server.Config(), opts)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		ended := goes(func() error { return c.Start(ctx) })
		t.Cleanup(func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		both[i] = c
	}
	synctest.Wait()
	var events [representations][2]heard
	for as := range representations {
		for i, c := range both {
			events[as][i] = listenTo(t, c, as, configMaps)
			obj, _ := examples(as, configMaps)
			if err := c.IndexField(t.Context(), obj, "app", func(obj client.Object) []string { return []string{obj.GetLabels()["app"]} }); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 15 {
		write()
		testkit.Advance(time.Second)
		for range 4 {
			as, gvk := r.IntN(representations), pick(r, configMaps, configMaps, corev1.SchemeGroupVersion.WithKind("Namespace"))
			both.get(t, as, gvk, client.ObjectKey{Namespace: pick(r, "a", "b", "c", "d"), Name: pick(r, "n0", "n1", "n2", "a")}, pick[client.GetOption](r, &client.GetOptions{}, client.UnsafeDisableDeepCopy))
			list := []client.ListOption{pick[client.ListOption](r, client.InNamespace(""), client.InNamespace("a"), client.InNamespace("b"), client.InNamespace("d"))}
			if r.IntN(2) == 0 {
				list = append(list, client.MatchingLabels{"app": pick(r, "x", "y")})
			}
			if r.IntN(3) == 0 {
				list = append(list, client.MatchingFields{pick(r, "app", "app", "other"): pick(r, "x", "y")})
			}
			if r.IntN(4) == 0 {
				list = append(list, client.Limit(2))
			}
			if r.IntN(8) == 0 {
				list = append(list, client.Continue("more"))
			}
			if r.IntN(4) == 0 {
				list = append(list, client.UnsafeDisableDeepCopy)
			}
			both.list(t, as, gvk, list...)
		}
	}
	for as := range representations {
		if !apiequality.Semantic.DeepEqual(events[as][0], events[as][1]) {
			t.Errorf("the handlers of controller-runtime see %v, Tarn's %v", events[as][0], events[as][1])
		}
	}
	if t.Failed() {
		t.Logf("the options are %+v", opts)
	}
}

// goes runs f in a goroutine and returns where its result comes.
func goes(f func() error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- f() }()
	return ended
}
