package apiserver_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// transports are the server options that clients are tested with.
var transports = map[string]apiserver.Options{
	"memory":         {},
	"memory, HTTP/2": {HTTP2: true},
	"network":        {Address: "127.0.0.1:0"},
	"network, TLS":   {Address: "127.0.0.1:0", TLS: true},
}

// everyTransport runs a test with each transport and encoding. It closes the client's
// connections afterwards, since client-go caches its transports forever.
func everyTransport(t *testing.T, encodings []string, run func(t *testing.T, s *apiserver.Server, cfg *rest.Config)) {
	for name, opts := range transports {
		for _, encoding := range encodings {
			t.Run(name+" "+encoding, func(t *testing.T) {
				s := apiserver.Start(t, opts)
				cfg := s.Config()
				cfg.ContentType = encoding
				client, err := rest.HTTPClientFor(cfg)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(client.CloseIdleConnections)
				run(t, s, cfg)
			})
		}
	}
}

func receive(t *testing.T, w watch.Interface) watch.Event {
	t.Helper()
	select {
	case ev, ok := <-w.ResultChan():
		if !ok {
			t.Fatal("the watch ended")
		}
		return ev
	case <-t.Context().Done():
		t.Fatal("no event")
	}
	return watch.Event{}
}

func TestClientsetWorksOverEveryTransport(t *testing.T) {
	everyTransport(t, []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf}, func(t *testing.T, s *apiserver.Server, cfg *rest.Config) {
		clients, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		api := clients.CoreV1().Pods("default")
		fill(t, s, pod("a"))
		made, err := api.Create(t.Context(), pod("b", "tier", "web"), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		list, err := api.List(t.Context(), metav1.ListOptions{Limit: 1})
		if err != nil || len(list.Items) != 1 || list.Continue == "" || *list.RemainingItemCount != 1 {
			t.Fatalf("list: %+v %v", list, err)
		}
		w, err := api.Watch(t.Context(), metav1.ListOptions{ResourceVersion: made.ResourceVersion, AllowWatchBookmarks: true})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		made.Labels["tier"] = "db"
		if _, err := api.Update(t.Context(), made, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := api.Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if ev := receive(t, w); ev.Type != watch.Modified || ev.Object.(*corev1.Pod).Labels["tier"] != "db" {
			t.Errorf("got %+v", ev)
		}
		if ev := receive(t, w); ev.Type != watch.Modified || ev.Object.(*corev1.Pod).DeletionTimestamp == nil {
			t.Errorf("a pod is marked before it is removed: got %+v", ev)
		}
		if ev := receive(t, w); ev.Type != watch.Deleted || ev.Object.(*corev1.Pod).ResourceVersion != version(s) {
			t.Errorf("got %+v", ev)
		}
		_, err = api.Get(t.Context(), "b", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) || err.Error() != `pods "b" not found` {
			t.Errorf("got %v", err)
		}
	})
}

func TestDynamicAndMetadataClientsWork(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	if err := s.Define(apiserver.Definition{Resource: lakes, Status: true}); err != nil {
		t.Fatal(err)
	}
	dyn, err := dynamic.NewForConfig(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	api := dyn.Resource(lakes.GVR()).Namespace("default")
	made, err := api.Create(t.Context(), lake("blue"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made.Object["status"] = map[string]any{"full": true}
	made.Object["spec"] = map[string]any{"depth": int64(1)}
	made, err = api.UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
	if err != nil || made.Object["status"] == nil || made.GetGeneration() != 1 {
		t.Fatalf("got %v %v", made, err)
	}
	unversioned := made.DeepCopy()
	unversioned.SetResourceVersion("")
	if _, err := api.Update(t.Context(), unversioned, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("an update of a custom object without a version: %v", err)
	}
	if err := api.Delete(t.Context(), "blue", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	fill(t, s, lake("green"), pod("a", "tier", "web"))
	list, err := dyn.Resource(corev1.SchemeGroupVersion.WithResource("pods")).List(t.Context(), listAll)
	if err != nil || len(list.Items) != 1 || list.Items[0].GetKind() != "Pod" {
		t.Errorf("got %+v %v", list, err)
	}

	meta, err := metadata.NewForConfig(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	for _, gvr := range []struct{ object.Resource }{{lakes}, {object.Resource{Version: "v1", Resource: "pods"}}} {
		list, err := meta.Resource(gvr.GVR()).List(t.Context(), listAll)
		if err != nil || len(list.Items) != 1 || list.ResourceVersion != version(s) || list.Items[0].UID == "" {
			t.Fatalf("%s: %+v %v", gvr, list, err)
		}
		w, err := meta.Resource(gvr.GVR()).Watch(t.Context(), listAll)
		if err != nil {
			t.Fatal(err)
		}
		if ev := receive(t, w); ev.Type != watch.Added || ev.Object.(*metav1.PartialObjectMetadata).Name != list.Items[0].Name {
			t.Errorf("%s: %+v", gvr, ev)
		}
		w.Stop()
	}
}

func TestTarnsOwnClientWorks(t *testing.T) {
	everyTransport(t, []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf}, func(t *testing.T, s *apiserver.Server, cfg *rest.Config) {
		client, err := wire.New(cfg, wire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer client.CloseIdleConnections()
		api := wire.For(client, wire.MustOf[*corev1.Pod]())
		fill(t, s, pod("a"), pod("b"))
		items, page, err := stream.List(t.Context(), api, object.ListOptions{})
		if err != nil || len(items) != 2 || string(page.Version) != version(s) {
			t.Fatalf("got %v %v %v", items, page, err)
		}
		watch, err := stream.Watch(t.Context(), api, object.WatchOptions{InitialEvents: true, Match: object.NotOlderThan, Bookmarks: true})
		if err != nil {
			t.Fatal(err)
		}
		defer watch.Close()
		var got []string
		for len(got) < 3 {
			events, err := watch.Next()
			if err != nil {
				t.Fatal(err)
			}
			for _, ev := range events {
				got = append(got, ev.Kind.String()+" "+ev.Item.Key.Name)
				if ev.Bookmark && !ev.InitialEnd {
					t.Errorf("bookmark without the initial-events annotation: %+v", ev)
				}
			}
		}
		if want := []string{"Added a", "Added b", "None "}; !slices.Equal(got, want) {
			t.Errorf("got %q", got)
		}
	})
}

func TestLegacyAndAggregatedDiscoveryAgree(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	if err := s.Define(apiserver.Definition{Resource: lakes, ShortNames: []string{"lk"}, Status: true, Scale: true}); err != nil {
		t.Fatal(err)
	}
	client := must(discovery.NewDiscoveryClientForConfig(s.Config()))
	resources := func() (all []string) {
		_, lists, err := client.ServerGroupsAndResources()
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range lists {
			for _, r := range l.APIResources {
				all = append(all, l.GroupVersion+" "+r.Name+" "+r.Kind+" "+strings.Join(r.Verbs, ",")+" "+strings.Join(r.ShortNames, ","))
			}
		}
		slices.Sort(all)
		return all
	}
	aggregated := resources()
	client.UseLegacyDiscovery = true
	legacy := resources()
	if !slices.Equal(aggregated, legacy) {
		t.Errorf("aggregated\n%s\nlegacy\n%s", strings.Join(aggregated, "\n"), strings.Join(legacy, "\n"))
	}
	for _, want := range []string{
		"v1 pods Pod create,delete,deletecollection,get,list,patch,update,watch po", "v1 pods/status Pod get,patch,update ", "v1 endpoints Endpoints",
		"apps/v1 deployments/scale Scale", "autoscaling/v2 horizontalpodautoscalers", "networking.k8s.io/v1 ingresses Ingress", "example.com/v1 lakes Lake",
		"apiextensions.k8s.io/v1 customresourcedefinitions", "authorization.k8s.io/v1 selfsubjectaccessreviews SelfSubjectAccessReview create ",
		"networking.k8s.io/v1 networkpolicies", "storage.k8s.io/v1 storageclasses",
	} {
		if !slices.ContainsFunc(legacy, func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("%q is missing", want)
		}
	}
	if v := must(client.ServerVersion()); v.Major != "1" {
		t.Errorf("got %+v", v)
	}
	if doc := must(client.OpenAPISchema()); doc.Swagger != "2.0" || doc.Info.Title != "tarn" || doc.Info.Version != "v1.37" {
		t.Errorf("got %+v", doc)
	}
	paths := must(client.OpenAPIV3().Paths())
	raw := must(paths["apis/apps/v1"].Schema("application/json"))
	if !strings.Contains(string(raw), "fieldValidation") {
		t.Errorf("got %s", raw)
	}
	do(t, s, http.MethodGet, "/apis", "", "Accept", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList").
		refused(t, http.StatusNotAcceptable, "NotAcceptable", "only the following media types are accepted")
	for _, path := range []string{"/healthz", "/livez", "/readyz?verbose", "/"} {
		if a := get(t, s, path); a.code != http.StatusOK {
			t.Errorf("%s: %d", path, a.code)
		}
	}
}

func TestEveryBuiltInKindCanBeListedAndWatched(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	client := must(discovery.NewDiscoveryClientForConfig(s.Config()))
	_, lists, err := client.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, l := range lists {
		for _, r := range l.APIResources {
			if !slices.Contains(r.Verbs, "list") {
				continue
			}
			root := "/apis/" + l.GroupVersion + "/"
			if l.GroupVersion == "v1" {
				root = "/api/v1/"
			}
			for _, accept := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON} {
				if a := do(t, s, http.MethodGet, root+r.Name, "", "Accept", accept); a.code != http.StatusOK {
					t.Errorf("%s: %d %s", root+r.Name, a.code, a.raw)
				}
			}
			n++
		}
	}
	if n < 60 {
		t.Errorf("only %d resources", n)
	}
}

func TestServerRunsInASynctestBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apiserver.Start(t, apiserver.Options{HTTP2: true})
		clients := clientset(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		w, err := clients.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{AllowWatchBookmarks: true})
		if err != nil {
			t.Fatal(err)
		}
		marks := 0
		for ev := range w.ResultChan() { // until the server's timeout
			if ev.Type == watch.Bookmark {
				marks++
			}
		}
		if marks < 29 {
			t.Errorf("got %d bookmarks in at least 30 minutes", marks)
		}
	})
}
