package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	tarn "github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
)

// demoResources lists the mirrored resources, named as in faults.
var demoResources = []string{"namespaces", "nodes", "deployments.apps", "replicasets.apps", "pods", "services", "configmaps"}

// demoMirrors holds the demo's mirrors and their recent changes.
type demoMirrors struct {
	namespaces *tarn.Mirror[*corev1.Namespace]
	pods       *tarn.Mirror[*corev1.Pod]
	configMaps *tarn.Mirror[*corev1.ConfigMap]

	byNode  *store.Index[*corev1.Pod, string]
	byOwner *store.Index[*corev1.Pod, object.UID]
	byLabel *store.LabelIndex[*corev1.Pod]

	all  []*demoMirror
	news demoNews
}

// demoMirror is a mirror of any type.
type demoMirror struct {
	name   string
	events atomic.Int64 // not counting the initial state
	sub    *informer.Subscription
	status func() tarn.MirrorStatus
	// differs compares the mirror with a list response of the server.
	differs func(list []byte) (objects, differences int, first string, err error)
	path    string
}

func newDemoMirrors(c *tarn.Cluster) (m *demoMirrors, err error) {
	m = &demoMirrors{
		byNode:  store.NewIndex("node", func(p *corev1.Pod) string { return p.Spec.NodeName }),
		byOwner: store.NewOwnerIndex[*corev1.Pod](),
		byLabel: store.NewLabelIndex(func(p *corev1.Pod) map[string]string { return p.Labels }),
	}
	if m.namespaces, err = mirrorTyped[*corev1.Namespace](m, c); err != nil {
		return nil, err
	}
	if m.pods, err = mirrorTyped[*corev1.Pod](m, c); err != nil {
		return nil, err
	}
	m.pods.AddIndex(m.byNode, m.byOwner, m.byLabel)
	if m.configMaps, err = mirrorTyped[*corev1.ConfigMap](m, c); err != nil {
		return nil, err
	}
	// These are only shown. A type of its own for each would double the time to compile this package.
	for _, res := range []object.Resource{wire.MustOf[*corev1.Node]().Resource, wire.MustOf[*appsv1.Deployment]().Resource,
		wire.MustOf[*appsv1.ReplicaSet]().Resource, wire.MustOf[*corev1.Service]().Resource} {
		h, err := tarn.MirrorResource(c, wire.Unstructured(res), tarn.KeepHistory(demoHistory))
		if err != nil {
			return nil, err
		}
		if err := addDemoMirror(m, h); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func mirrorTyped[P tarn.Pointer[X], X any](m *demoMirrors, c *tarn.Cluster) (*tarn.Mirror[P], error) {
	h, err := tarn.MirrorOf[P](c, tarn.KeepHistory(demoHistory))
	if err != nil {
		return nil, err
	}
	return h, addDemoMirror(m, h)
}

func addDemoMirror[P tarn.Pointer[X], X any](m *demoMirrors, h *tarn.Mirror[P]) (err error) {
	res := h.Resource()
	one := &demoMirror{name: res.Resource, path: listPath(res.GVR()), status: h.Status}
	one.sub, err = h.SubscribeBatch(func(_ context.Context, events []tarn.Event[P]) {
		for _, ev := range events {
			if ev.Initial {
				continue
			}
			one.events.Add(1)
			m.news.add(one.name, ev.Kind, ev.Key, any(ev.Old()), any(ev.New()))
		}
	}, tarn.SubOptions[P]{Name: "demo"})
	if err != nil {
		return err
	}
	one.differs = func(list []byte) (int, int, string, error) { return differing(h, list) }
	m.all = append(m.all, one)
	return nil
}

// demoHistory is how many versions of each object the console shows.
const demoHistory = 10

func listPath(gvr schema.GroupVersionResource) string {
	if gvr.Group == "" {
		return "/api/" + gvr.Version + "/" + gvr.Resource
	}
	return "/apis/" + gvr.Group + "/" + gvr.Version + "/" + gvr.Resource
}

// comparison is the result of comparing the mirrors with the server.
type comparison struct {
	objects, resources int
	err                error // the difference, or why the comparison failed
}

// compare lists everything over plain HTTP, without Tarn's own client, and compares it with
// the mirrors field by field.
func (m *demoMirrors) compare(ctx context.Context, server *apiserver.Server) (found comparison) {
	cfg := server.MemoryConfig()
	client := &http.Client{Transport: cfg.Transport}
	for _, one := range m.all {
		if found.err = ctx.Err(); found.err != nil {
			return found
		}
		list, err := get(ctx, client, cfg.Host+one.path)
		if err != nil {
			found.err = fmt.Errorf("%s could not be compared: %s", one.name, network(err))
			return found
		}
		objects, wrong, first, err := one.differs(list)
		switch {
		case err != nil:
			found.err = fmt.Errorf("%s could not be compared: %w", one.name, err)
			return found
		case wrong > 0:
			found.err = fmt.Errorf("%d %s differ, including %s (%s)", wrong, one.name, first, one.status())
			return found
		}
		found.objects += objects
		found.resources++
	}
	return found
}

func get(ctx context.Context, client *http.Client, url string) (body json.RawMessage, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("unexpected response: %s", resp.Status)
	}
	return body, json.NewDecoder(resp.Body).Decode(&body)
}

// differing compares a mirror with a JSON list.
func differing[P tarn.Pointer[X], X any](h *tarn.Mirror[P], list []byte) (objects, wrong int, first string, err error) {
	var have struct{ Items []json.RawMessage }
	if err := json.Unmarshal(list, &have); err != nil {
		return 0, 0, "", err
	}
	snap := h.Snapshot()
	defer snap.Release()
	differ := func(key object.Key) {
		if wrong == 0 {
			first = key.String()
		}
		wrong++
	}
	on := map[object.Key]bool{}
	for _, raw := range have.Items {
		item := P(new(X))
		into := any(item)
		if u, ok := into.(*unstructured.Unstructured); ok {
			into = &u.Object // its own decoding wants a kind, which list items do not have
		}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, into); err != nil {
			return 0, 0, "", err
		}
		key := object.Key{Namespace: item.GetNamespace(), Name: item.GetName()}
		on[key] = true
		if mine, ok := snap.Get(key); !ok || !equality.Semantic.DeepEqual(bare(item), bare(mine)) {
			differ(key)
		}
	}
	for key := range snap.Keys() {
		if !on[key] {
			differ(key)
		}
	}
	return len(have.Items), wrong, first, nil
}

// bare returns a copy without kind and apiVersion, which list items do not have, and without
// managed fields, which mirrors drop.
func bare[P tarn.Object](obj P) P {
	obj = obj.DeepCopyObject().(P)
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	obj.SetManagedFields(nil)
	return obj
}

// demoNews holds the latest changes.
type demoNews struct {
	mu   sync.Mutex // guards last
	last []demoChange
}

// demoChange is a change to show.
type demoChange struct {
	kind object.Kind
	text string
}

const demoNewsKept = 8

func (n *demoNews) add(resource string, kind object.Kind, key object.Key, before, after any) {
	change := demoChange{kind: kind, text: resource + " " + key.String()}
	if kind == object.Updated {
		change.text += ": " + describe(before, after)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.last) == demoNewsKept {
		copy(n.last, n.last[1:])
		n.last = n.last[:demoNewsKept-1]
	}
	n.last = append(n.last, change)
}

// newest returns the latest changes, newest first.
func (n *demoNews) newest() []demoChange {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make([]demoChange, 0, len(n.last))
	for i := len(n.last) - 1; i >= 0; i-- {
		out = append(out, n.last[i])
	}
	return out
}

// describe summarizes a change of an object.
func describe(before, after any) string {
	switch now := after.(type) {
	case *corev1.Pod:
		was := before.(*corev1.Pod)
		switch {
		case was.Status.Phase != now.Status.Phase:
			return fmt.Sprintf("%s -> %s on %s", was.Status.Phase, now.Status.Phase, now.Spec.NodeName)
		case len(now.Status.ContainerStatuses) > 0 && now.Status.ContainerStatuses[0].State.Waiting != nil:
			return fmt.Sprintf("%s, restart %d", now.Status.ContainerStatuses[0].State.Waiting.Reason, now.Status.ContainerStatuses[0].RestartCount)
		}
		return "ready again"
	case *unstructured.Unstructured:
		was := before.(*unstructured.Unstructured)
		if a, b := number(was, "spec", "replicas"), number(now, "spec", "replicas"); a != b {
			return fmt.Sprintf("scaled %d -> %d", a, b)
		}
		if replicas := number(now, "status", "replicas"); replicas > 0 {
			return fmt.Sprintf("%d of %d ready", number(now, "status", "readyReplicas"), replicas)
		}
		if now.GetKind() == "Node" {
			return "heartbeat"
		}
	case *corev1.ConfigMap:
		if now.Name == summaryName {
			return fmt.Sprintf("%s pods, %s ready, written by the controller", now.Data["pods"], now.Data["ready"])
		}
		return "workers=" + now.Data["workers"]
	}
	return "changed"
}

// number returns a field of an object, 0 if it has none.
func number(obj *unstructured.Unstructured, path ...string) int64 {
	n, _, _ := unstructured.NestedInt64(obj.Object, path...)
	return n
}
