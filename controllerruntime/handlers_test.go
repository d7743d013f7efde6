package controllerruntime_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controllerruntime"
)

// events records the versions that a handler sees.
func events(t *testing.T, c cache.Cache, obj client.Object) *[]string {
	t.Helper()
	inf, err := c.GetInformer(t.Context(), obj)
	if err != nil {
		t.Fatal(err)
	}
	seen := &[]string{}
	note := func(what string) func(any) {
		return func(got any) {
			if d, ok := got.(toolscache.DeletedFinalStateUnknown); ok {
				got = d.Obj
			}
			if reflect.TypeOf(got) != reflect.TypeOf(obj) {
				t.Errorf("a handler for a %T got a %T", obj, got)
			}
			m := got.(client.Object)
			*seen = append(*seen, fmt.Sprint(what, " ", m.GetName(), " ", m.GetResourceVersion()))
		}
	}
	reg, err := inf.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: note("add"), UpdateFunc: func(_, obj any) { note("update")(obj) }, DeleteFunc: note("delete"),
	})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	if !reg.HasSynced() {
		t.Error("the handler is not synced")
	}
	return seen
}

// A handler and an index function that panic lose that event and that object only.
func TestHandlersAndIndexFunctionsThatPanicAffectOneObject(t *testing.T) {
	bubble(t, func(t *testing.T, server *apiserver.Server) {
		namespaces(t, server, "shop")
		c := start(t, server, controllerruntime.Options{}, cache.Options{})
		if err := c.IndexField(t.Context(), &corev1.Pod{}, "name", func(obj client.Object) []string {
			if obj.GetName() == "bad" {
				panic("bad")
			}
			return []string{obj.GetName()}
		}); err != nil {
			t.Fatal(err)
		}
		inf, err := c.GetInformer(t.Context(), &corev1.Pod{})
		if err != nil {
			t.Fatal(err)
		}
		var added []string
		reg, err := inf.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
			if obj.(*corev1.Pod).Name == "bad" {
				panic("bad")
			}
			added = append(added, obj.(*corev1.Pod).Name)
		}})
		if err != nil {
			t.Fatal(err)
		}
		create(t, server, pod("shop", "bad", nil), pod("shop", "good", nil))
		synctest.Wait()
		if !slices.Equal(added, []string{"good"}) {
			t.Errorf("the handler saw %q", added)
		}
		var list corev1.PodList
		if err := c.List(t.Context(), &list, client.MatchingFields{"name": "good"}); err != nil || len(list.Items) != 1 {
			t.Errorf("listed %d, %v", len(list.Items), err)
		}
		if err := inf.RemoveEventHandler(reg); err != nil {
			t.Error(err)
		}
		create(t, server, pod("shop", "late", nil))
		synctest.Wait()
		if len(added) != 1 {
			t.Errorf("a removed handler saw %q", added)
		}
		if err := c.RemoveInformer(t.Context(), &corev1.Pod{}); err != nil || !inf.IsStopped() || len(mirrors(t, c)) != 0 {
			t.Errorf("after RemoveInformer: %v, %q", err, mirrors(t, c))
		}
	})
}

// A relist calls no handler for what has not changed, and a deletion that it finds is of unknown final state.
func TestARelistReportsDifferencesOnly(t *testing.T) {
	bubble(t, func(t *testing.T, server *apiserver.Server) {
		namespaces(t, server, "shop")
		create(t, server, pod("shop", "web", nil), pod("shop", "db", nil))
		c := start(t, server, controllerruntime.Options{}, cache.Options{})
		inf, err := c.GetInformer(t.Context(), &corev1.Pod{})
		if err != nil {
			t.Fatal(err)
		}
		calls, unknown := 0, 0
		if _, err := inf.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { calls++ }, UpdateFunc: func(_, _ any) { calls++ },
			DeleteFunc: func(obj any) {
				calls++
				if d, ok := obj.(toolscache.DeletedFinalStateUnknown); ok && d.Key == "shop/db" {
					unknown++
				}
			},
		}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		remove, err := server.Inject(apiserver.Fault{Kind: apiserver.Unavailable, Resource: "pods", Verb: "watch"})
		if err != nil {
			t.Fatal(err)
		}
		server.Cut("pods")
		if err := server.Delete(pod("shop", "db", nil)); err != nil {
			t.Fatal(err)
		}
		server.Compact(0)
		<-time.After(10 * time.Second)
		remove()
		<-time.After(5 * time.Minute)
		if calls != 3 || unknown != 1 {
			t.Errorf("the handler was called %d times, %d of them for the deletion; want 3 and 1", calls, unknown)
		}
	})
}

// An object with a new UID under an old name is another object.
func TestARecreatedObjectIsADeletionAndAnAddition(t *testing.T) {
	bubble(t, func(t *testing.T, server *apiserver.Server) {
		namespaces(t, server, "shop")
		create(t, server, pod("shop", "web", nil))
		c := start(t, server, controllerruntime.Options{}, cache.Options{})
		seen := events(t, c, &corev1.Pod{})
		remove, err := server.Inject(apiserver.Fault{Kind: apiserver.Unavailable, Resource: "pods", Verb: "watch"})
		if err != nil {
			t.Fatal(err)
		}
		server.Cut("pods")
		if err := server.Delete(pod("shop", "web", nil)); err != nil {
			t.Fatal(err)
		}
		create(t, server, pod("shop", "web", nil))
		server.Compact(0)
		<-time.After(10 * time.Second)
		remove()
		<-time.After(5 * time.Minute)
		var kinds []string
		for _, event := range *seen {
			kind, _, _ := strings.Cut(event, " ")
			kinds = append(kinds, kind)
		}
		if !slices.Equal(kinds, []string{"add", "delete", "add"}) {
			t.Errorf("the handler saw %q", *seen)
		}
	})
}

// A custom resource that is deleted and created again works without a restart.
func TestADefinitionMayBeDeletedAndCreatedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, server *apiserver.Server) {
		namespaces(t, server, "shop")
		definition := apiserver.Definition{Resource: widgets}
		if err := server.Define(definition); err != nil {
			t.Fatal(err)
		}
		create(t, server, widget("a", "red"))
		c := start(t, server, controllerruntime.Options{}, cache.Options{Scheme: widgetScheme(t)})
		seen := events(t, c, &Widget{})
		server.Undefine(widgets.Group, widgets.Resource)
		<-time.After(5 * time.Minute)
		if err := server.Define(definition); err != nil {
			t.Fatal(err)
		}
		create(t, server, widget("b", "blue"))
		<-time.After(5 * time.Minute)
		var list WidgetList
		if err := c.List(t.Context(), &list); err != nil || len(list.Items) != 1 || list.Items[0].Name != "b" {
			t.Errorf("listed %+v, %v", list.Items, err)
		}
		if n := len(*seen); n < 2 || !strings.HasPrefix((*seen)[n-1], "add b") {
			t.Errorf("the handler saw %q", *seen)
		}
	})
}
