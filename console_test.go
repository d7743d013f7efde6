package tarn_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/console"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
)

// consoleGet requests a page of the console from this machine.
func consoleGet(h http.Handler, target string) (int, string) {
	r := httptest.NewRequest(http.MethodGet, "http://localhost:8080/debug/tarn/"+target, nil)
	r.RemoteAddr = "127.0.0.1:4000"
	w := httptest.NewRecorder()
	console.OnLoopback(h).ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// consoleJSON requests a page of the console and decodes it.
func consoleJSON[V any](t *testing.T, h http.Handler, endpoint string, query ...string) (v V) {
	t.Helper()
	q := url.Values{}
	for i := 0; i < len(query); i += 2 {
		q.Set(query[i], query[i+1])
	}
	code, body := consoleGet(h, endpoint+"?"+q.Encode())
	if err := json.Unmarshal([]byte(body), &v); code != 200 || err != nil {
		t.Fatalf("%s %v: %d %s", endpoint, query, code, body)
	}
	return v
}

type objectPage struct {
	Items    []struct{ Key, Owner, Status string }
	Continue string
	Total    int
}

func (p objectPage) keys() (keys []string) {
	for _, i := range p.Items {
		keys = append(keys, i.Key)
	}
	return keys
}

func TestTheConsolePagesThroughObjectsOfEveryForm(t *testing.T) {
	withCluster(t, with(), func(t *testing.T, r *testCluster) {
		pods := must(tarn.MirrorOf[*corev1.Pod](r.Cluster))
		pods.AddIndex(store.NewIndex("node", func(p *corev1.Pod) string { return p.Spec.NodeName }), store.NewIndex("size", func(p *corev1.Pod) int { return len(p.Name) }))
		must(tarn.MirrorOf[*corev1.Pod](r.Cluster, tarn.Compact()))
		must(tarn.MirrorResource(r.Cluster, wire.Unstructured(pods.Resource())))
		must(tarn.MirrorResource(r.Cluster, wire.Metadata(pods.Resource())))
		for i := range 25 {
			p := pod([]string{"shop", "mail"}[i%2], fmt.Sprintf("web-%02d", i), fmt.Sprintf("node-%d", i%3))
			p.Labels = map[string]string{"odd": fmt.Sprint(i%2 == 1)}
			p.Status.Phase = corev1.PodRunning
			r.create(p)
		}
		r.start()
		h := r.Handler()
		for _, mirror := range r.Status().Mirrors {
			name := mirror.Name
			var all []string
			query := []string{"mirror", name, "limit", "10"}
			for pages := 0; ; pages++ {
				p := consoleJSON[objectPage](t, h, "objects", query...)
				all = append(all, p.keys()...)
				if p.Total != 25 || pages > 3 {
					t.Fatalf("%s: %+v", name, p)
				}
				if p.Items[0].Status != "Running" && mirror.Form != tarn.Metadata {
					t.Errorf("%s: %+v", name, p.Items[0])
				}
				if p.Continue == "" {
					break
				}
				query = []string{"mirror", name, "limit", "10", "continue", p.Continue}
			}
			if len(all) != 25 || all[0] != "mail/web-01" || all[24] != "shop/web-24" {
				t.Errorf("%s: %v", name, all)
			}
			for what, want := range map[string]int{
				"namespace=mail": 12, "search=web-1": 10, "search=il/web-1": 5, "labels=odd=true": 12, "labels=odd=true,none": 0, "labels=odd&namespace=shop": 13, "search=none": 0,
			} {
				query := []string{"mirror", name}
				for _, part := range strings.Split(what, "&") {
					k, v, _ := strings.Cut(part, "=")
					query = append(query, k, v)
				}
				if p := consoleJSON[objectPage](t, h, "objects", query...); len(p.Items) != want || p.Continue != "" {
					t.Errorf("%s %s: %+v", name, what, p)
				}
			}
			if code, body := consoleGet(h, "object?mirror="+url.QueryEscape(name)+"&key=mail/web-01"); code != 200 || !strings.Contains(body, `kind: `) || !strings.Contains(body, `name: web-01\n`) {
				t.Errorf("%s: %d %s", name, code, body)
			}
		}
		if p := consoleJSON[objectPage](t, h, "objects", "mirror", "pods", "index", "node", "value", "node-1", "namespace", "mail"); p.Total != 4 || len(p.Items) != 4 || p.keys()[0] != "mail/web-01" {
			t.Errorf("by index: %+v", p)
		}
		if p := consoleJSON[objectPage](t, h, "objects", "mirror", "pods", "index", "size", "value", "6"); p.Total != 25 {
			t.Errorf("by an index of numbers: %+v", p)
		}
		for target, code := range map[string]int{
			"objects": 400, "objects?mirror=no": 404, "objects?mirror=pods&limit=0": 400, "objects?mirror=pods&labels=%3D": 400, "objects?mirror=pods&index=no&value=x": 404,
			"object?mirror=pods": 400, "object?mirror=pods&key=mail/no": 404, "explain": 400, "explain?key=a&controller=no": 404, "assets/page.go": 404, "admin/relist": 404,
		} {
			if got, body := consoleGet(h, target); got != code {
				t.Errorf("%s: %d %s, want %d", target, got, body, code)
			}
		}
	})
}

type objectDetail struct {
	YAML               string
	Masked             []string
	Owners, Dependents []struct{ Kind, Key, Mirror string }
	Reconciles         []console.ReconcileRecord
	History            []struct {
		Version, Kind string
		Changes       []struct {
			Path     string
			Old, New any
		}
	}
}

func TestTheConsoleShowsOwnersDependentsReconcilesAndHistory(t *testing.T) {
	withCluster(t, with(), func(t *testing.T, r *testCluster) {
		deployments := must(tarn.MirrorOf[*appsv1.Deployment](r.Cluster))
		must(tarn.MirrorOf[*appsv1.ReplicaSet](r.Cluster))
		pods := must(tarn.MirrorOf[*corev1.Pod](r.Cluster, tarn.KeepHistory(3)))
		pods.AddIndex(store.NewOwnerIndex[*corev1.Pod]())
		meta := func(name, uid string, owner *metav1.OwnerReference) metav1.ObjectMeta {
			m := metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(uid)}
			if owner != nil {
				m.OwnerReferences = []metav1.OwnerReference{*owner}
			}
			return m
		}
		d := must(r.srv.Create(&appsv1.Deployment{ObjectMeta: meta("web", "", nil)})).(*appsv1.Deployment)
		rs := must(r.srv.Create(&appsv1.ReplicaSet{ObjectMeta: meta("web-1", "", metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment")))})).(*appsv1.ReplicaSet)
		p := must(r.srv.Create(&corev1.Pod{ObjectMeta: meta("web-1-a", "", metav1.NewControllerRef(rs, appsv1.SchemeGroupVersion.WithKind("ReplicaSet")))})).(*corev1.Pod).DeepCopy()
		must(tarn.NewController(r.Cluster, "website", func(ctx context.Context, key tarn.Key) (tarn.Result, error) {
			controller.Logger(ctx).Info("looked", "replicas", 1)
			return tarn.Result{}, nil
		}, tarn.For(deployments)))
		r.start()
		h := r.Handler()
		for i := range 4 {
			p.Spec.NodeName = fmt.Sprintf("node-%d", i)
			p = must(r.srv.Update(p)).(*corev1.Pod).DeepCopy()
			synctest.Wait()
		}

		got := consoleJSON[objectDetail](t, h, "object", "mirror", "pods", "key", "shop/web-1-a")
		if fmt.Sprint(got.Owners) != "[{ReplicaSet shop/web-1 replicasets.apps} {Deployment shop/web deployments.apps}]" {
			t.Errorf("owners: %v", got.Owners)
		}
		if len(got.History) != 3 || got.History[0].Kind != "updated" || got.History[0].Version != p.ResourceVersion {
			t.Errorf("history: %+v", got.History)
		} else if c := got.History[0].Changes; len(c) != 2 || c[1].Path != "spec.nodeName" || c[1].Old != "node-2" || c[1].New != "node-3" {
			t.Errorf("changes: %+v", c)
		}
		got = consoleJSON[objectDetail](t, h, "object", "mirror", "deployments.apps", "key", "shop/web")
		if fmt.Sprint(got.Dependents) != "[{ReplicaSet shop/web-1 replicasets.apps}]" || len(got.History) != 0 {
			t.Errorf("%+v", got)
		}
		if len(got.Reconciles) != 1 || got.Reconciles[0].Outcome != "success" || fmt.Sprint(got.Reconciles[0].Log) != "[INFO looked replicas=1]" {
			t.Errorf("reconciles: %+v", got.Reconciles)
		}
		got = consoleJSON[objectDetail](t, h, "object", "mirror", "replicasets.apps", "key", "shop/web-1")
		if fmt.Sprint(got.Dependents) != "[{Pod shop/web-1-a pods}]" {
			t.Errorf("dependents: %v", got.Dependents)
		}

		if err := r.srv.Delete(p); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		got = consoleJSON[objectDetail](t, h, "object", "mirror", "pods", "key", "shop/web-1-a")
		if got.YAML != "" || got.History[0].Kind != "deleted" {
			t.Errorf("a deleted object: %+v", got)
		}
		if st := pods.Status(); st.History != 3 || st.Bytes != 0 || deployments.Status().Bytes == 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestExplainSaysWhyAKeyIsNotReconciled(t *testing.T) {
	token := "open-sesame"
	withCluster(t, with(tarn.WithConsole(console.HandlerOptions{AdminToken: token})), func(t *testing.T, r *testCluster) {
		pods := must(tarn.MirrorOf[*corev1.Pod](r.Cluster))
		fail := errors.New("quota exceeded")
		must(tarn.NewController(r.Cluster, "website", func(_ context.Context, key tarn.Key) (tarn.Result, error) { return tarn.Result{}, fail }, tarn.For(pods)))
		r.create(pod("shop", "web", "n"))
		h := r.Handler()
		explain := func(key string) console.KeyExplanation {
			t.Helper()
			x := consoleJSON[console.Explanation](t, h, "explain", "key", key)
			if len(x.Controllers) != 1 {
				t.Fatalf("%+v", x)
			}
			return x.Controllers[0]
		}
		want := func(x console.KeyExplanation, state, why string) {
			t.Helper()
			if x.State != state || !strings.Contains(x.Why, why) {
				t.Errorf("%+v\nwant %s: %s", x, state, why)
			}
		}
		want(explain("shop/web"), "controller not working", "The cluster's Run has not been called.")
		r.start()
		simtest.Advance(10 * time.Second)
		x := explain("shop/web")
		want(x, "backing off", "It is backing off after attempt 11 until ")
		if x.LastError != "quota exceeded" || x.Due == "" || x.Reconcile == nil || x.Reconcile.Attempt != 11 || fmt.Sprint(x.Objects[0].Exists) != "true" {
			t.Errorf("%+v", x)
		}
		x = explain("shop/other")
		want(x, "unknown", "nothing to do for this key")
		if fmt.Sprint(x.Objects) != "[{pods false  it does not exist}]" {
			t.Errorf("%+v", x.Objects)
		}

		admin := func(target, token, contentType string) int {
			req := httptest.NewRequest(http.MethodPost, "http://localhost:8080/debug/tarn/admin/"+target, strings.NewReader("{}"))
			req.RemoteAddr = "127.0.0.1:4000"
			req.Header.Set("Authorization", "Bearer "+token)
			req.Header.Set("Content-Type", contentType)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			return w.Code
		}
		const asJSON = "application/json"
		for _, tt := range []struct {
			target, token, kind string
			code                int
		}{
			{"pause?controller=website", "", asJSON, 401}, {"pause?controller=website", "wrong", asJSON, 401}, {"pause?controller=website", token, "text/plain", 415},
			{"pause?controller=no", token, asJSON, 404}, {"relist?mirror=no", token, asJSON, 404}, {"retry?controller=website", token, asJSON, 400}, {"explode", token, asJSON, 404},
		} {
			if got := admin(tt.target, tt.token, tt.kind); got != tt.code {
				t.Errorf("%s: %d, want %d", tt.target, got, tt.code)
			}
		}
		if s := r.Status(); s.Controllers[0].Paused {
			t.Error("paused without permission")
		}
		do := func(target string) {
			t.Helper()
			if code := admin(target, token, asJSON); code != 204 {
				t.Errorf("%s: %d", target, code)
			}
			synctest.Wait()
		}
		do("pause?controller=website")
		want(explain("shop/web"), "controller not working", "The controller is paused.")
		do("resume?controller=website")
		fail = nil
		do("retry?controller=website&key=shop/web")
		simtest.Advance(10 * time.Millisecond)
		want(explain("shop/web"), "done", "It was reconciled ")
		lists := r.Status().Mirrors[0].Informer.Sources[0].Reflector.Counts.Lists
		do("relist?mirror=pods")
		if now := r.Status().Mirrors[0].Informer.Sources[0].Reflector.Counts.Lists; now != lists+1 {
			t.Errorf("%d lists after %d", now, lists)
		}
	})
}

func TestTheConsoleStreamsTheStatusUntilTheClusterEnds(t *testing.T) {
	withCluster(t, with(), func(t *testing.T, r *testCluster) {
		must(tarn.MirrorOf[*corev1.Pod](r.Cluster))
		r.start()
		h := console.OnLoopback(r.Handler())
		type client struct {
			w    *httptest.ResponseRecorder
			done chan struct{}
			end  context.CancelFunc
		}
		open := func(query string) *client {
			ctx, cancel := context.WithCancel(t.Context())
			req := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost:8080/debug/tarn/events"+query, nil)
			req.RemoteAddr = "127.0.0.1:4000"
			c := &client{httptest.NewRecorder(), make(chan struct{}), cancel}
			go func() { defer close(c.done); h.ServeHTTP(c.w, req) }()
			synctest.Wait()
			return c
		}
		a, b := open(""), open("?mirror=pods")
		simtest.Advance(10*time.Second + 10*time.Millisecond)
		b.end()
		<-b.done
		simtest.Want(t, "status events of a client that left", strings.Count(b.w.Body.String(), "event: status\n"), 11)
		simtest.Want(t, "object events without a change", strings.Count(b.w.Body.String(), "event: objects\n"), 1)

		c := open("?mirror=pods")
		r.create(pod("shop", "web", "n"))
		simtest.Advance(time.Second)
		simtest.Want(t, "object events", strings.Count(c.w.Body.String(), "event: objects\n"), 2)
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		simtest.Advance(2 * time.Second)
		<-a.done
		<-c.done
		if text := a.w.Body.String(); !strings.HasSuffix(text, "event: end\ndata: {}\n\n") || !strings.Contains(text, `"stopped":true`) {
			t.Errorf("%s", text)
		}
	})
}

// However many reconciles of others follow, the console shows the last one of a key that fails.
func TestAFailingKeyKeepsItsLastReconcile(t *testing.T) {
	withCluster(t, with(), func(t *testing.T, r *testCluster) {
		pods := must(tarn.MirrorOf[*corev1.Pod](r.Cluster))
		must(tarn.NewController(r.Cluster, "website", func(ctx context.Context, key tarn.Key) (tarn.Result, error) {
			if key.Name != "web" {
				return tarn.Result{}, nil
			}
			controller.Logger(ctx).Info("asked", "zone", "a")
			return tarn.Result{}, controller.Terminal(errors.New("quota exceeded"))
		}, tarn.For(pods)))
		r.create(pod("shop", "web", "n"))
		r.start()
		for i := range 300 {
			r.create(pod("shop", fmt.Sprint("other-", i), "n"))
		}
		h := r.Handler()
		if got := consoleJSON[objectDetail](t, h, "object", "mirror", "pods", "key", "shop/web").Reconciles; len(got) != 1 || got[0].Error != "not to be retried: quota exceeded" || fmt.Sprint(got[0].Log) != "[INFO asked zone=a]" {
			t.Errorf("%+v", got)
		}
		if got := consoleJSON[console.Explanation](t, h, "explain", "key", "shop/web").Controllers[0].Reconcile; got == nil || got.Outcome != "terminal" {
			t.Errorf("%+v", got)
		}
	})
}

func TestAFailingKeyWhoseErrorIsNotKeptIsExplained(t *testing.T) {
	withCluster(t, with(), func(t *testing.T, r *testCluster) {
		pods := must(tarn.MirrorOf[*corev1.Pod](r.Cluster))
		must(tarn.NewController(r.Cluster, "website", func(context.Context, tarn.Key) (tarn.Result, error) {
			return tarn.Result{}, errors.New("quota exceeded")
		},
			tarn.For(pods), tarn.WithControllerOptions(controller.Options[tarn.Key]{Errors: 1, Recent: -1})))
		r.create(pod("shop", "a", "n"), pod("shop", "b", "n"))
		r.start()
		simtest.Advance(10 * time.Second)
		h := r.Handler()
		unkept := 0
		for _, key := range []string{"shop/a", "shop/b"} {
			x := consoleJSON[console.Explanation](t, h, "explain", "key", key).Controllers[0]
			if x.State != "backing off" || !strings.HasPrefix(x.Why, "It is backing off after attempt 11 until ") {
				t.Errorf("%+v", x)
			}
			if x.LastError == "" && strings.HasSuffix(x.Why, "so many keys fail that its error is not kept, but the log has it.") {
				unkept++
			}
		}
		if unkept != 1 {
			t.Errorf("%d explanations lack the error, want 1", unkept)
		}
	})
}

// Nothing that the console, the logs or the metrics show has the value of a secret.
func TestSecretValuesLeaveTheProcessNowhere(t *testing.T) {
	const data, token, field, past = "c2VjcmV0LXZhbHVl", "bearer-token-value", "masked-field-value", "earlier-field-value"
	var logs bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		srv := apiserver.Start(t, apiserver.Options{AnyNamespace: true, Seed: 1})
		if err := srv.Define(apiserver.Definition{Resource: widgets}); err != nil {
			t.Fatal(err)
		}
		config := srv.MemoryConfig()
		config.BearerToken = token
		r := &testCluster{t: t, srv: srv, Cluster: connect(t, tarn.WithConfig(config), tarn.WithConsole(console.HandlerOptions{AdminToken: token}),
			tarn.WithLogger(slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug}))))}
		mask := tarn.Mask(object.FieldPath{"spec", "token"}, object.FieldPath{"metadata", "labels", "hidden"})
		secrets := must(tarn.MirrorOf[*corev1.Secret](r.Cluster, tarn.KeepHistory(5)))
		must(tarn.MirrorResource(r.Cluster, wire.Unstructured(secrets.Resource()), tarn.Compact()))
		gears := must(tarn.MirrorResource(r.Cluster, wire.Unstructured(widgets), tarn.KeepHistory(5)))
		must(tarn.MirrorResource(r.Cluster, wire.Unstructured(widgets), mask))
		must(tarn.MirrorResource(r.Cluster, wire.Unstructured(widgets), tarn.Compact(), tarn.KeepManagedFields())) // masked, too
		must(tarn.NewController(r.Cluster, "website", func(context.Context, tarn.Key) (tarn.Result, error) { return tarn.Result{}, errors.New("oops") }, tarn.For(gears), tarn.From(controller.For(secrets))))
		r.start()
		secret := must(srv.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "s", Annotations: map[string]string{object.LastApplied[2]: `{"data":{"k":"` + data + `"}}`, "copy": "the secret-value", "kapp.k14s.io/original": `{"data":{"k":"` + data + `"}}`},
		}, Data: map[string][]byte{"k": []byte("secret-value")}})).(*corev1.Secret).DeepCopy()
		gear := widget("g")
		set := func(value string) {
			_ = unstructured.SetNestedField(gear.Object, value, "spec", "token")
			gear.SetLabels(map[string]string{"hidden": value})
			gear.SetAnnotations(map[string]string{object.LastApplied[2]: `{"token":"` + value + `"}`})
		}
		set(past)
		gear = must(srv.Create(gear)).(*unstructured.Unstructured).DeepCopy()
		synctest.Wait()
		set(field)
		gear = must(srv.Update(gear)).(*unstructured.Unstructured).DeepCopy()
		secret.Labels = map[string]string{"a": "b"}
		must(srv.Update(secret))
		synctest.Wait()

		h := console.OnLoopback(r.Handler())
		pages := []string{"/metrics", "/readyz?verbose", "/healthz?verbose", "/debug/tarn/", "/debug/tarn/status", "/debug/tarn/explain?key=shop/s", "/debug/tarn/explain?key=shop/g"}
		for _, m := range r.Status().Mirrors {
			name := url.QueryEscape(m.Name)
			pages = append(pages, "/debug/tarn/objects?mirror="+name, "/debug/tarn/object?key=shop/s&mirror="+name, "/debug/tarn/object?key=shop/g&mirror="+name)
		}
		seen := map[string]bool{}
		for _, page := range pages {
			req := httptest.NewRequest(http.MethodGet, "http://localhost:8080"+page, nil)
			req.RemoteAddr = "127.0.0.1:4000"
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			for _, value := range []string{data, "secret-value", token, field, past} {
				if strings.Contains(w.Body.String(), value) || strings.Contains(fmt.Sprint(w.Header()), value) {
					t.Errorf("%s has %s:\n%s", page, value, w.Body)
				}
			}
			for _, sign := range []string{"k: '********'", "token: '********'", `"history"`, "spec.token"} {
				seen[sign] = seen[sign] || strings.Contains(w.Body.String(), sign)
			}
		}
		if !seen["k: '********'"] || !seen["token: '********'"] || !seen[`"history"`] {
			t.Errorf("the pages did not show the objects: %v", seen)
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
	for _, value := range []string{data, "secret-value", token, field, past} {
		if strings.Contains(logs.String(), value) {
			t.Errorf("the log has %s:\n%s", value, &logs)
		}
	}
}
