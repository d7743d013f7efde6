package wire

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/wire/internal/wiretest"
)

func groups(kind string, items ...apidiscovery.APIGroupDiscovery) *apidiscovery.APIGroupDiscoveryList {
	return &apidiscovery.APIGroupDiscoveryList{TypeMeta: metav1.TypeMeta{APIVersion: "apidiscovery.k8s.io/" + kind, Kind: "APIGroupDiscoveryList"}, Items: items}
}

func group(name string, versions ...apidiscovery.APIVersionDiscovery) apidiscovery.APIGroupDiscovery {
	return apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: name}, Versions: versions}
}

var (
	coreGroup = group("", apidiscovery.APIVersionDiscovery{Version: "v1", Freshness: "Current", Resources: []apidiscovery.APIResourceDiscovery{
		{
			Resource: "pods", SingularResource: "pod", Scope: apidiscovery.ScopeNamespace, ShortNames: []string{"po"}, Categories: []string{"all"},
			ResponseKind: &metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Verbs: []string{"get", "list"},
			Subresources: []apidiscovery.APISubresourceDiscovery{{Subresource: "log"}, {Subresource: "status"}},
		},
		{Resource: "nodes", SingularResource: "node", Scope: apidiscovery.ScopeCluster, ResponseKind: &metav1.GroupVersionKind{Version: "v1", Kind: "Node"}, Verbs: []string{"get"}},
		{Resource: "ghosts"},
	}})
	appsVersion = func(v string) apidiscovery.APIVersionDiscovery {
		return apidiscovery.APIVersionDiscovery{Version: v, Resources: []apidiscovery.APIResourceDiscovery{
			{Resource: "deployments", SingularResource: "deployment", Scope: apidiscovery.ScopeNamespace, ResponseKind: &metav1.GroupVersionKind{Group: "apps", Version: v, Kind: "Deployment"}, Verbs: []string{"get"}},
		}}
	}
)

// discoverable serves the responses by path.
func discoverable(t *testing.T, asked *atomic.Int32, answers map[string]string) *Client {
	return serve(t, Options{Retry: Retry{Max: -1}}, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		body, ok := answers[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, body)
	})
}

func asJSON(t *testing.T, v any) string { return string(wiretest.Must(json.Marshal(v))(t)) }

func TestDiscoveryReadsAllGroupsAtOnce(t *testing.T) {
	want := []Discovered{
		{Resource: podResource, Singular: "pod", ShortNames: []string{"po"}, Categories: []string{"all"}, Verbs: []string{"get", "list"}, Subresources: []string{"log", "status"}, Preferred: true},
		{Resource: nodeResource, Singular: "node", Verbs: []string{"get"}, Preferred: true},
		{Resource: someResources[4].Resource, Singular: "deployment", Verbs: []string{"get"}, Preferred: true},
		{Resource: someResources[5].Resource, Singular: "deployment", Verbs: []string{"get"}},
	}
	var requests atomic.Int32
	d := NewDiscovery(discoverable(t, &requests, map[string]string{
		"/api": asJSON(t, groups("v2", coreGroup)), "/apis": asJSON(t, groups("v2", group("apps", appsVersion("v1"), appsVersion("v1beta1")))),
	}))
	got, err := d.All(t.Context())
	if err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want, got); diff != "" || requests.Load() != 2 {
		t.Errorf("with %d requests:\n%s", requests.Load(), diff)
	}
}

func TestAnUnknownResourceHasSuggestions(t *testing.T) {
	var requests atomic.Int32
	d := NewDiscovery(discoverable(t, &requests, map[string]string{"/api": asJSON(t, groups("v2", coreGroup))}))
	_, err := d.Find(t.Context(), "podz")
	var unknown *UnknownResourceError
	if !errors.As(err, &unknown) || err.Error() != `no resource "podz"; did you mean pods?` {
		t.Errorf("the error is %v", err)
	}
	if _, err := d.Find(t.Context(), "xyzzy"); err == nil || err.Error() != `no resource "xyzzy"` {
		t.Errorf("the error is %v", err)
	}
	if _, err := d.FindKind(t.Context(), "v1", "Pot"); err == nil || err.Error() != `no resource "Pot of v1"; did you mean pods?` {
		t.Errorf("the error is %v", err)
	}
	pods, err := d.Find(t.Context(), "po")
	if err != nil || pods.Resource != podResource {
		t.Errorf("po is %+v, %v", pods.Resource, err)
	}
	if node, err := d.FindKind(t.Context(), "v1", "Node"); err != nil || node.Resource != nodeResource {
		t.Errorf("Node is %+v, %v", node.Resource, err)
	}
	for want, e := range map[string]*UnknownResourceError{
		`no resource "x"; did you mean a or b?`:    {Name: "x", Suggestions: []string{"a", "b"}},
		`no resource "x"; did you mean a, b or c?`: {Name: "x", Suggestions: []string{"a", "b", "c"}},
		`no resource "x" (half is missing)`:        {Name: "x", Skipped: errors.New("half is missing")},
	} {
		if e.Error() != want {
			t.Errorf("%q, want %q", e, want)
		}
	}
}

func TestDiscoveryIsCachedUntilItExpiresOrIsInvalidated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		lamps := false
		c := inMemory(t, Options{}, func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/apis" {
				return wiretest.Response(r, 404, ""), nil
			}
			requests++
			list := groups("v2", coreGroup)
			if lamps {
				list = groups("v2", coreGroup, group("home.example", apidiscovery.APIVersionDiscovery{Version: "v1", Resources: []apidiscovery.APIResourceDiscovery{
					{Resource: "lamps", Scope: apidiscovery.ScopeNamespace, ResponseKind: &metav1.GroupVersionKind{Kind: "Lamp"}, Verbs: []string{"get"}}}}))
			}
			return wiretest.Response(r, 200, asJSON(t, list)), nil
		})
		d := NewDiscovery(c)
		find := func(name string, ok bool, wantRequests int) {
			t.Helper()
			if _, err := d.Find(t.Context(), name); (err == nil) != ok || requests != wantRequests {
				t.Errorf("%s after %d requests: %v; want %d requests", name, requests, err, wantRequests)
			}
		}
		wait := func(d time.Duration) {
			t.Helper()
			if err := sleep(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		find("pods", true, 1)
		find("nodes", true, 1)
		find("lamps", false, 1) // just fetched
		lamps = true
		find("lamps", false, 1)
		wait(5 * time.Second)
		find("pods", true, 1)
		find("lamps", true, 2) // unknown, and old enough to fetch again
		wait(10*time.Minute - 1)
		find("pods", true, 2)
		wait(1)
		find("pods", true, 3)
		d.Invalidate()
		find("pods", true, 4)
		all, _ := d.All(t.Context())
		all[0] = Discovered{}
		find("pods", true, 4) // callers cannot change the cache
	})
}

func TestConcurrentDiscoveryFetchesOnce(t *testing.T) {
	var requests atomic.Int32
	d := NewDiscovery(discoverable(t, &requests, map[string]string{"/api": asJSON(t, groups("v2", coreGroup)), "/apis": asJSON(t, groups("v2"))}))
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if _, err := d.Find(t.Context(), "pods"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if requests.Load() != 2 {
		t.Errorf("%d requests", requests.Load())
	}
}

func TestWaitingForDiscoveryEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := inMemory(t, Options{}, func(r *http.Request) (*http.Response, error) {
			<-release
			return wiretest.Response(r, 404, ""), nil
		})
		d := NewDiscovery(c)
		done := make(chan struct{})
		go func() { d.All(context.Background()); close(done) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := d.Find(ctx, "pods"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
		close(release)
		<-done
	})
}

func TestABrokenGroupIsSkippedAndReported(t *testing.T) {
	stale := appsVersion("v1")
	stale.Freshness = apidiscovery.DiscoveryFreshnessStale
	aggregated := map[string]string{"/api": asJSON(t, groups("v2", coreGroup)), "/apis": asJSON(t, groups("v2", group("apps", stale)))}
	var requests atomic.Int32
	d := NewDiscovery(discoverable(t, &requests, aggregated))
	all, err := d.All(t.Context())
	var skipped *SkippedGroupsError
	if !errors.As(err, &skipped) || len(skipped.Groups) != 1 || !strings.Contains(err.Error(), "apps/v1") || len(all) < 3 {
		t.Errorf("%d resources, %v", len(all), err)
	}
	if pods, err := d.Find(t.Context(), "pods"); err != nil || pods.Resource != podResource {
		t.Errorf("pods are %+v, %v", pods, err)
	}
	if _, err := d.Find(t.Context(), "xyzzy"); err == nil || !errors.As(err, &skipped) || !strings.Contains(err.Error(), "some API groups") {
		t.Errorf("the error does not say what was not asked: %v", err)
	}
}

func TestFailedDiscoveryIsNotCached(t *testing.T) {
	broken := atomic.Bool{}
	broken.Store(true)
	c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case broken.Load():
			w.WriteHeader(http.StatusForbidden)
		case r.URL.Path == "/api":
			io.WriteString(w, asJSON(t, groups("v2", coreGroup)))
		default:
			http.NotFound(w, r)
		}
	})
	d := NewDiscovery(c)
	if _, err := d.Find(t.Context(), "pods"); err == nil || !strings.HasPrefix(err.Error(), "discover resources: get /api: ") {
		t.Errorf("the error is %v", err)
	}
	broken.Store(false)
	if _, err := d.Find(t.Context(), "pods"); err != nil {
		t.Error(err)
	}
}

func TestAServerWithoutResourcesIsAnError(t *testing.T) {
	for name, answers := range map[string]map[string]string{
		"nothing there":       {},
		"something else":      {"/api": `{"hello":"world"}`},
		"a page":              {"/api": `<html></html>`},
		"a Status for a list": {"/api": `{"kind":"Status","apiVersion":"v1"}`},
	} {
		var requests atomic.Int32
		d := NewDiscovery(discoverable(t, &requests, answers))
		if _, err := d.All(t.Context()); err == nil || !strings.Contains(err.Error(), "discover resources") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDiscoveredResourcesCanBeUsed(t *testing.T) {
	var requests atomic.Int32
	d := NewDiscovery(discoverable(t, &requests, map[string]string{"/api": asJSON(t, groups("v2", coreGroup))}))
	pods, err := d.Find(t.Context(), "pods")
	if err != nil {
		t.Fatal(err)
	}
	if err := Unstructured(pods.Resource).Valid(); err != nil || !slices.Contains(pods.Verbs, "list") {
		t.Errorf("%+v: %v", pods, err)
	}
}
