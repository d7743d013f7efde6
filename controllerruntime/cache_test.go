package controllerruntime_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controllerruntime"
	"github.com/tarnproject/tarn/object"
)

// bubble runs a test with a server in virtual time.
func bubble(t *testing.T, test func(t *testing.T, server *apiserver.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, apiserver.Start(t, apiserver.Options{Seed: 1})) })
}

// start makes a cache and runs it until the test ends.
func start(t *testing.T, server *apiserver.Server, options controllerruntime.Options, opts cache.Options) cache.Cache {
	t.Helper()
	c, err := controllerruntime.Cache(options)(server.Config(), opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return c
}

func pod(namespace, name string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx"}}},
	}
}

func create(t *testing.T, server *apiserver.Server, objs ...runtime.Object) {
	t.Helper()
	for _, obj := range objs {
		if _, err := server.Create(obj); err != nil {
			t.Fatal(err)
		}
	}
}

func namespaces(t *testing.T, server *apiserver.Server, names ...string) {
	t.Helper()
	for _, name := range names {
		create(t, server, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
}

func mirrors(t *testing.T, c cache.Cache) (names []string) {
	t.Helper()
	cluster, ok := controllerruntime.ClusterOf(c)
	if !ok {
		t.Fatal("not a cache of NewCache")
	}
	for _, m := range cluster.Status().Mirrors {
		names = append(names, m.Name)
	}
	return names
}

var (
	web    = client.ObjectKey{Namespace: "shop", Name: "web"}
	unsafe = client.UnsafeDisableDeepCopy
)

// What a reader does to an object that it got shows nowhere else, in both forms; with
// UnsafeDisableDeepCopy readers share objects.
func TestC02_ReadsBelongToTheCallerUnlessCopiesAreDisabled(t *testing.T) {
	for _, form := range []controllerruntime.Form{controllerruntime.Compact, controllerruntime.Decoded} {
		bubble(t, func(t *testing.T, server *apiserver.Server) {
			namespaces(t, server, "shop")
			create(t, server, pod("shop", "web", map[string]string{"app": "web"}))
			c := start(t, server, controllerruntime.Options{Default: controllerruntime.Kind{Form: form}}, cache.Options{})
			read := func(opts ...client.GetOption) *corev1.Pod {
				got := &corev1.Pod{}
				if err := c.Get(t.Context(), web, got, opts...); err != nil {
					t.Fatal(err)
				}
				return got
			}
			first := read()
			first.Labels["app"], first.Spec.Containers[0].Image = "mine", "mine"
			var list corev1.PodList
			if err := c.List(t.Context(), &list); err != nil {
				t.Fatal(err)
			}
			list.Items[0].Labels["app"] = "mine"
			if got := read(); got.Labels["app"] != "web" || got.Spec.Containers[0].Image != "nginx" {
				t.Errorf("form %d: a reader changed what others read", form)
			}
			if got := read(); got.GroupVersionKind() != corev1.SchemeGroupVersion.WithKind("Pod") {
				t.Errorf("form %d: the kind is %s", form, got.GroupVersionKind())
			}
			a, b := read(unsafe), read(unsafe)
			if reflect.ValueOf(a.Labels).Pointer() != reflect.ValueOf(b.Labels).Pointer() {
				t.Errorf("form %d: reads without copies share nothing", form)
			}
		})
	}
}

// A list has everything up to its version, and nothing later.
func TestC03_AListIsTheStateAtItsVersion(t *testing.T) {
	bubble(t, func(t *testing.T, server *apiserver.Server) {
		namespaces(t, server, "shop", "lab")
		c := start(t, server, controllerruntime.Options{}, cache.Options{})
		if _, err := c.GetInformer(t.Context(), &corev1.Pod{}); err != nil {
			t.Fatal(err)
		}
		created := map[string]object.Version{} // by name
		for i := range 40 {
			ns := []string{"shop", "lab"}[i%2]
			rec, err := server.Create(pod(ns, fmt.Sprint("p", i), map[string]string{"app": "web"}))
			if err != nil {
				t.Fatal(err)
			}
			created[fmt.Sprint("p", i)] = object.Version(rec.(metav1.Object).GetResourceVersion())
			if i%3 == 0 {
				synctest.Wait()
			}
			for _, opts := range [][]client.ListOption{nil, {client.MatchingLabels{"app": "web"}}} {
				var list corev1.PodList
				if err := c.List(t.Context(), &list, opts...); err != nil {
					t.Fatal(err)
				}
				want := 0
				for _, version := range created {
					if version.NotAfter(object.Version(list.ResourceVersion)) {
						want++
					}
				}
				if len(list.Items) != want {
					t.Errorf("a list at version %s has %d objects; %d existed then", list.ResourceVersion, len(list.Items), want)
				}
			}
		}
	})
}

var widgets = object.Resource{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true}

// Widget is a Go type of the resource that lacks a field of it.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Colour string `json:"colour,omitempty"`
	} `json:"spec,omitempty"`
}

type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Widget `json:"items"`
}

func (w *Widget) DeepCopyObject() runtime.Object {
	c := *w
	c.ObjectMeta = *w.ObjectMeta.DeepCopy()
	return &c
}

func (l *WidgetList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = slices.Clone(l.Items)
	return &c
}

func widgetScheme(t *testing.T) *runtime.Scheme {
	s := runtime.NewScheme()
	gv := schema.GroupVersion{Group: "example.com", Version: "v1"}
	s.AddKnownTypes(gv, &Widget{}, &WidgetList{})
	metav1.AddToGroupVersion(s, gv)
	if err := scheme.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	return s
}

func widget(name, colour string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"colour": colour, "unknown": "kept"}}}
	u.SetGroupVersionKind(widgets.GVK())
	u.SetNamespace("shop")
	u.SetName(name)
	return u
}

// Views of one kind share a mirror where one encoding serves them, and see the same.
func TestC04_ViewsOfOneKindShareAMirrorAndSeeTheSame(t *testing.T) {
	bubble(t, func(t *testing.T, server *apiserver.Server) {
		namespaces(t, server, "shop")
		if err := server.Define(apiserver.Definition{Resource: widgets}); err != nil {
			t.Fatal(err)
		}
		create(t, server, widget("a", "red"), pod("shop", "web", nil))
		c := start(t, server, controllerruntime.Options{}, cache.Options{Scheme: widgetScheme(t)})
		tree, meta, podMeta := &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadata{}
		tree.SetGroupVersionKind(widgets.GVK())
		meta.SetGroupVersionKind(widgets.GVK())
		podMeta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		all := []*[]string{events(t, c, &Widget{}), events(t, c, tree), events(t, c, meta)}
		pods := []*[]string{events(t, c, &corev1.Pod{}), events(t, c, podMeta)}
		if got := mirrors(t, c); len(got) != 2 {
			t.Errorf("the mirrors are %q; want one of widgets and one of pods", got)
		}
		for _, colour := range []string{"blue", "green"} {
			now := widget("a", colour)
			if _, err := server.Update(now); err != nil {
				t.Fatal(err)
			}
			create(t, server, widget(colour, colour))
			synctest.Wait()
		}
		if err := server.Delete(widget("a", "")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for _, seen := range all {
			if len(*seen) != 6 || !slices.Equal(*seen, *all[0]) {
				t.Errorf("handlers saw %q and %q", *seen, *all[0])
			}
		}
		if !slices.Equal(*pods[0], *pods[1]) {
			t.Errorf("handlers saw %q and %q", *pods[0], *pods[1])
		}

		// The Go type lacks a field, which the unstructured view has all the same.
		key := client.ObjectKey{Namespace: "shop", Name: "green"}
		var typed Widget
		if err := c.Get(t.Context(), key, &typed); err != nil || typed.Spec.Colour != "green" {
			t.Errorf("read %+v, %v", typed, err)
		}
		if err := c.Get(t.Context(), key, tree); err != nil {
			t.Fatal(err)
		}
		if got, _, _ := unstructured.NestedString(tree.Object, "spec", "unknown"); got != "kept" {
			t.Errorf("the unstructured view has lost a field: %v", tree.Object)
		}
		var metas metav1.PartialObjectMetadataList
		metas.SetGroupVersionKind(widgets.GVK().GroupVersion().WithKind("WidgetList"))
		if err := c.List(t.Context(), &metas); err != nil || len(metas.Items) != 2 || metas.Items[0].Kind != "Widget" {
			t.Errorf("listed %+v, %v", metas.Items, err)
		}
	})
}

// An index of any view finds objects, also in a namespace and together with others.
func TestIndexesOfEachView(t *testing.T) {
	bubble(t, func(t *testing.T, server *apiserver.Server) {
		namespaces(t, server, "shop")
		if err := server.Define(apiserver.Definition{Resource: widgets}); err != nil {
			t.Fatal(err)
		}
		create(t, server, widget("a", "red"), widget("b", "blue"))
		c := start(t, server, controllerruntime.Options{}, cache.Options{Scheme: widgetScheme(t)})
		tree := &unstructured.Unstructured{}
		tree.SetGroupVersionKind(widgets.GVK())
		colour := func(obj client.Object) []string {
			switch o := obj.(type) {
			case *Widget:
				return []string{o.Spec.Colour}
			case *unstructured.Unstructured:
				text, _, _ := unstructured.NestedString(o.Object, "spec", "colour")
				return []string{text}
			}
			panic("another type")
		}
		byName := func(obj client.Object) []string { return []string{obj.GetName()} }
		for _, obj := range []client.Object{&Widget{}, tree} {
			if err := c.IndexField(t.Context(), obj, "spec.colour", colour); err != nil {
				t.Fatal(err)
			}
			if err := c.IndexField(t.Context(), obj, "name", byName); err != nil {
				t.Fatal(err)
			}
			if err := c.IndexField(t.Context(), obj, "name", byName); err == nil {
				t.Error("an index was added twice")
			}
		}
		create(t, server, widget("c", "red"))
		if !c.WaitForCacheSync(t.Context()) {
			t.Fatal("not synced")
		}
		synctest.Wait()
		for _, list := range []client.ObjectList{&WidgetList{}, func() client.ObjectList {
			l := &unstructured.UnstructuredList{}
			l.SetGroupVersionKind(widgets.GVK().GroupVersion().WithKind("WidgetList"))
			return l
		}()} {
			for want, opts := range map[int][]client.ListOption{
				2: {client.MatchingFields{"spec.colour": "red"}},
				1: {client.MatchingFields{"spec.colour": "red", "name": "c"}, client.InNamespace("shop")},
				0: {client.MatchingFields{"spec.colour": "red"}, client.InNamespace("lab")},
			} {
				if err := c.List(t.Context(), list, opts...); err != nil {
					t.Fatal(err)
				}
				if got := length(list); got != want {
					t.Errorf("%T with %v has %d objects, want %d", list, opts, got, want)
				}
			}
		}
		if err := c.List(t.Context(), &WidgetList{}, client.MatchingFields{"spec.size": "1"}); err == nil || !strings.Contains(err.Error(), "does not exist") {
			t.Errorf("a field without an index: %v", err)
		}
		if err := c.List(t.Context(), &WidgetList{}, client.MatchingFieldsSelector{Selector: fields.OneTermNotEqualSelector("name", "a")}); err == nil {
			t.Error("a selector that no index answers is no error")
		}
	})
}

func length(list client.ObjectList) int {
	switch l := list.(type) {
	case *WidgetList:
		return len(l.Items)
	case *unstructured.UnstructuredList:
		return len(l.Items)
	case *corev1.PodList:
		return len(l.Items)
	}
	return -1
}

// A forbidden kind fails its own reads with the cause, and readiness names it; other kinds work.
func TestC05_AForbiddenKindIsNamedAndAffectsItselfOnly(t *testing.T) {
	bubble(t, func(t *testing.T, server *apiserver.Server) {
		namespaces(t, server, "shop")
		create(t, server, pod("shop", "web", nil))
		remove, err := server.Inject(apiserver.Fault{Kind: apiserver.Forbidden, Resource: "secrets"})
		if err != nil {
			t.Fatal(err)
		}
		c := start(t, server, controllerruntime.Options{}, cache.Options{})
		soon, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = c.Get(soon, web, &corev1.Secret{})
		if !apierrors.IsTimeout(err) || !strings.Contains(err.Error(), "forbidden") {
			t.Errorf("reading a secret: %v", err)
		}
		if forbidden := (*tarn.NotServedError)(nil); errors.As(err, &forbidden) {
			t.Errorf("reading a secret: %v", err)
		}
		if err := c.Get(t.Context(), web, &corev1.Pod{}); err != nil {
			t.Errorf("reading a pod: %v", err)
		}
		if err := controllerruntime.Ready(c)(nil); err == nil || !strings.Contains(err.Error(), "secrets") || !strings.Contains(err.Error(), "forbidden") {
			t.Errorf("readiness: %v", err)
		}
		again, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if c.WaitForCacheSync(again) {
			t.Error("the cache is synced")
		}
		remove()
		if !c.WaitForCacheSync(t.Context()) {
			t.Error("the cache is not synced after the permission was given")
		}
		if err := controllerruntime.Ready(c)(nil); err != nil {
			t.Errorf("readiness: %v", err)
		}
	})
}

// Errors that controller-runtime's users know.
func TestReadsOfWhatIsNotCachedAreErrors(t *testing.T) {
	bubble(t, func(t *testing.T, server *apiserver.Server) {
		namespaces(t, server, "shop", "lab")
		create(t, server, pod("shop", "web", nil))
		c, err := controllerruntime.NewCache(server.Config(), cache.Options{DefaultNamespaces: map[string]cache.Config{"shop": {}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), web, &corev1.Pod{}); !errors.As(err, new(*cache.ErrCacheNotStarted)) {
			t.Errorf("before the start: %v", err)
		}
		if err := controllerruntime.Ready(c)(nil); err == nil {
			t.Error("ready before the start")
		}
		c = start(t, server, controllerruntime.Options{}, cache.Options{DefaultNamespaces: map[string]cache.Config{"shop": {}}})
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "lab", Name: "web"}, &corev1.Pod{}); err == nil || apierrors.IsNotFound(err) {
			t.Errorf("in another namespace: %v", err)
		}
		if err := c.List(t.Context(), &corev1.PodList{}, client.InNamespace("lab")); err == nil {
			t.Error("a list of another namespace is no error")
		}
		unknown := &unstructured.Unstructured{}
		unknown.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"})
		if err := c.Get(t.Context(), web, unknown); err == nil || !strings.Contains(err.Error(), "no matches for kind") {
			t.Errorf("an unknown kind: %v", err)
		}
		if err := c.Start(t.Context()); err == nil {
			t.Error("it started twice")
		}
	})
}

// A transform that fails, panics or changes the type costs that object, which a read of it says.
func TestATransformThatFailsAffectsThatObjectOnly(t *testing.T) {
	bubble(t, func(t *testing.T, server *apiserver.Server) {
		namespaces(t, server, "shop")
		create(t, server, pod("shop", "web", nil), pod("shop", "fails", nil), pod("shop", "panics", nil), pod("shop", "turns", nil))
		transform := func(obj any) (any, error) {
			p := obj.(*corev1.Pod)
			switch p.Name {
			case "fails":
				return nil, errors.New("refused")
			case "panics":
				panic("refused")
			case "turns":
				return &corev1.Secret{}, nil
			}
			p.Annotations = map[string]string{"seen": "yes"}
			return p, nil
		}
		c := start(t, server, controllerruntime.Options{}, cache.Options{DefaultTransform: transform})
		for _, name := range []string{"fails", "panics", "turns"} {
			err := c.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, &corev1.Pod{})
			if err == nil || apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "transform") {
				t.Errorf("%s: %v", name, err)
			}
		}
		got := &corev1.Pod{}
		if err := c.Get(t.Context(), web, got); err != nil || got.Annotations["seen"] != "yes" {
			t.Errorf("read %v, %v", got.Annotations, err)
		}
	})
}

// With informers of the program's own, the cache is controller-runtime's.
func TestACacheWithInformersOfTheProgramIsControllerRuntimes(t *testing.T) {
	bubble(t, func(t *testing.T, server *apiserver.Server) {
		c, err := controllerruntime.NewCache(server.Config(), cache.Options{NewInformer: toolscache.NewSharedIndexInformer})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := controllerruntime.ClusterOf(c); ok {
			t.Error("it is one of Tarn's")
		}
		if err := controllerruntime.Ready(c)(nil); err != nil {
			t.Error(err)
		}
	})
}

// Namespaces with equal settings share a mirror; others and selectors have their own.
func TestNamespacesAndSelectorsDecideTheMirrors(t *testing.T) {
	bubble(t, func(t *testing.T, server *apiserver.Server) {
		namespaces(t, server, "a", "b", "c", "d")
		for _, ns := range []string{"a", "b", "c", "d"} {
			create(t, server, pod(ns, "web", map[string]string{"app": "web"}), pod(ns, "db", map[string]string{"app": "db"}))
		}
		c := start(t, server, controllerruntime.Options{}, cache.Options{DefaultNamespaces: map[string]cache.Config{
			"a": {}, "b": {}, "c": {FieldSelector: fields.OneTermEqualSelector("metadata.name", "db")},
		}})
		var list corev1.PodList
		if err := c.List(t.Context(), &list); err != nil || len(list.Items) != 5 {
			t.Errorf("listed %d, %v", len(list.Items), err)
		}
		if err := c.List(t.Context(), &list, client.InNamespace("b"), client.Limit(1)); err != nil || len(list.Items) != 1 || list.Continue != "continue-not-supported" {
			t.Errorf("listed %d, %v", len(list.Items), err)
		}
		if got := mirrors(t, c); len(got) != 2 {
			t.Errorf("the mirrors are %q", got)
		}
		if err := c.List(t.Context(), &corev1.NodeList{}, client.InNamespace("a")); err != nil {
			t.Errorf("a cluster-scoped kind: %v", err)
		}
	})
}
