package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tarnproject/tarn/e2e/controlplane"
	"github.com/tarnproject/tarn/e2e/patience"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/wire"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

func TestTheControlPlaneIsTheVersionThatWasBuilt(t *testing.T) {
	plane := shared.Plane(t)
	version, err := clientset(t, plane.Config()).Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if version.GitVersion != "v1.36.3" {
		t.Errorf("got %s", version.GitVersion)
	}
}

// Users are who their certificate or token says, and may do what RBAC says.
func TestW23_RightsAreThoseOfRBAC(t *testing.T) {
	plane := shared.Plane(t)
	ns := namespace(t, plane.Config())
	certificate, err := plane.ConfigFor("ann", "readers")
	if err != nil {
		t.Fatal(err)
	}
	token, err := plane.TokenConfig(patience.Context(t), ns, "bot")
	if err != nil {
		t.Fatal(err)
	}
	nobody := rest.CopyConfig(token)
	nobody.BearerToken = "made-up"
	list := func(config *rest.Config) error {
		client, err := wire.New(config, wire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer client.CloseIdleConnections()
		_, _, err = wire.For(client, wire.MustOf[*corev1.ConfigMap]()).List(patience.Context(t),
			object.ListOptions{Selection: object.Selection{Namespace: ns}})
		return err
	}
	if err := list(nobody); !apierrors.IsUnauthorized(err) {
		t.Errorf("a made-up token: %v", err)
	}
	for _, config := range []*rest.Config{certificate, token} {
		if err := list(config); !apierrors.IsForbidden(err) {
			t.Errorf("before it was granted: %v", err)
		}
	}
	rbac := clientset(t, plane.Config()).RbacV1()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "watch"}}},
	}
	if _, err := rbac.Roles(ns).Create(patience.Context(t), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects: []rbacv1.Subject{
			{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "readers"},
			{Kind: "ServiceAccount", Namespace: ns, Name: "bot"},
		},
	}
	if _, err := rbac.RoleBindings(ns).Create(patience.Context(t), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, config := range []*rest.Config{certificate, token} {
		patience.Until(t, "the right to list", func() bool { return list(config) == nil })
	}
}

// Both encodings and both ways to fetch the state give the same mirror, which follows.
func TestL01_W02_MirrorsEqualAFreshList(t *testing.T) {
	plane := shared.Plane(t)
	for _, encoding := range []wire.Encoding{wire.Protobuf, wire.JSON} {
		for _, streaming := range []reflector.Mode{reflector.StreamingOn, reflector.StreamingOff} {
			t.Run(fmt.Sprintf("%s, streaming %s", encoding, streaming), func(t *testing.T) {
				w := writer{t, clientset(t, plane.Config()), namespace(t, plane.Config())}
				for i := range 20 {
					w.create(fmt.Sprintf("cm-%02d", i), "0")
				}
				m := startMirror(t, plane.Config(), w.namespace, encoding, streaming)
				if n := m.Len(); n != 20 {
					t.Errorf("%d objects when synced; want 20", n)
				}
				if s := m.reflector(); (s.Counts.Streamed == 1) != (streaming == reflector.StreamingOn) || s.Counts.Lists != 1 {
					t.Errorf("%d streamed of %d lists", s.Counts.Streamed, s.Counts.Lists)
				}
				w.update("cm-03", "1")
				w.delete("cm-04")
				m.reaches(t, w.create("later", "0"))
				m.wasTold(t, "update cm-03=1")
				m.wasTold(t, "delete cm-04=0")
				m.wasTold(t, "add later=0")
				m.same(t, w.clients, w.namespace)
				if s := m.reflector(); s.Counts.Lists != 1 {
					t.Errorf("%d lists; want one, and the rest by watch", s.Counts.Lists)
				}
			})
		}
	}
}

// What happened while the watch was down, and has been forgotten since, is found by a
// relist.
func TestW08_W18_CompactionLeadsToARelist(t *testing.T) {
	plane := shared.Plane(t)
	proxy := controlplane.StartProxy(t, plane.Address())
	w := writer{t, clientset(t, plane.Config()), namespace(t, plane.Config())}
	w.create("stays", "0")
	w.create("goes", "0")
	m := startMirror(t, proxy.Config(plane.Config()), w.namespace, wire.Protobuf, reflector.StreamingAuto)
	m.watches(t)
	if err := proxy.Refuse(true); err != nil {
		t.Fatal(err)
	}
	if proxy.Cut() == 0 {
		t.Fatal("there was no connection")
	}
	patience.Until(t, "a refused connection to be shown", func() bool { return m.reflector().Counts.Ended[reflector.Refused] > 0 })
	if _, ok := m.Get(object.Key{Namespace: w.namespace, Name: "goes"}); !ok {
		t.Error("what was known is not readable while the server cannot be reached")
	}
	w.update("stays", "1")
	w.delete("goes")
	added := w.create("comes", "0")
	if err := plane.Compact(patience.Context(t), 0); err != nil {
		t.Fatal(err)
	}
	if err := plane.APIServer.Kill(); err != nil { // its watch cache still had them
		t.Fatal(err)
	}
	if err := plane.APIServer.Start(patience.Context(t)); err != nil {
		t.Fatal(err)
	}
	if err := proxy.Refuse(false); err != nil {
		t.Fatal(err)
	}
	m.reaches(t, added)
	m.wasTold(t, "delete, final state unknown, goes=0")
	m.wasTold(t, "update stays=1")
	m.same(t, w.clients, w.namespace)
	if s := m.reflector(); s.Counts.Ended[reflector.Expired] == 0 || s.Counts.Lists < 2 {
		t.Errorf("ended for %v, %d lists; want an expired watch and a second list", s.Counts.Ended, s.Counts.Lists)
	}
}

// An exact list of a compacted version is refused by etcd itself, and a watch is by an API
// server without a cache.
func TestW08_CompactedVersionsAreGone(t *testing.T) {
	plane := controlplane.Start(t, controlplane.Options{APIServerArgs: []string{"--watch-cache=false"}})
	w := writer{t, clientset(t, plane.Config()), "default"}
	first := object.Version(w.create("a", "0").ResourceVersion)
	w.update("a", "1")
	w.update("a", "2")
	if err := plane.Compact(patience.Context(t), 0); err != nil {
		t.Fatal(err)
	}
	client, err := wire.New(plane.Config(), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	api := wire.For(client, wire.MustOf[*corev1.ConfigMap]())
	all := object.Selection{Namespace: "default"}
	if _, _, err := api.List(patience.Context(t), object.ListOptions{Selection: all, Version: first, Match: object.Exact}); !apierrors.IsResourceExpired(err) {
		t.Errorf("the list: %v", err)
	}
	stream, err := api.Watch(patience.Context(t), object.WatchOptions{Selection: all, Version: first})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	events, err := stream.Next()
	if err != nil || len(events) != 1 || events[0].Type != object.Failed || !apierrors.IsResourceExpired(events[0].Err) && !apierrors.IsGone(events[0].Err) {
		t.Errorf("the watch: %v, %v", events, err)
	}
	m := startMirror(t, plane.Config(), "default", wire.Protobuf, reflector.StreamingAuto)
	m.same(t, w.clients, "default")
}

// A crash of the API server costs neither the state nor a change.
func TestW09_W22_TheAPIServerIsKilledAndComesBack(t *testing.T) {
	plane := shared.Plane(t)
	w := writer{t, clientset(t, plane.Config()), namespace(t, plane.Config())}
	for i := range 10 {
		w.create(fmt.Sprintf("cm-%d", i), "0")
	}
	m := startMirror(t, plane.Config(), w.namespace, wire.Protobuf, reflector.StreamingAuto)
	m.watches(t)
	if err := plane.APIServer.Kill(); err != nil {
		t.Fatal(err)
	}
	patience.Until(t, "a cause to be shown", func() bool { return m.reflector().Cause != nil })
	if n := m.Len(); n != 10 {
		t.Errorf("%d objects are readable while the server is down; want 10", n)
	}
	if err := plane.APIServer.Start(patience.Context(t)); err != nil {
		t.Fatal(err)
	}
	w.update("cm-1", "1")
	w.delete("cm-2")
	m.reaches(t, w.create("later", "0"))
	m.wasTold(t, "update cm-1=1")
	m.same(t, w.clients, w.namespace)
	if s := m.Status(); !s.Live() {
		t.Errorf("not live: %s", s)
	}
}

// A paused API server is silent, and goes on where it stopped.
func TestW13_APausedAPIServerGoesOn(t *testing.T) {
	plane := shared.Plane(t)
	w := writer{t, clientset(t, plane.Config()), namespace(t, plane.Config())}
	w.create("a", "0")
	m := startMirror(t, plane.Config(), w.namespace, wire.JSON, reflector.StreamingAuto)
	m.watches(t)
	if err := plane.APIServer.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := plane.APIServer.Start(patience.Context(t)); err == nil || !strings.Contains(err.Error(), "paused already") {
		t.Errorf("started while paused: %v", err)
	}
	if err := plane.APIServer.Resume(); err != nil {
		t.Fatal(err)
	}
	m.reaches(t, w.update("a", "1"))
	if s := m.reflector(); s.Counts.Lists != 1 || s.Counts.Watches > 2 {
		t.Errorf("%d lists and %d watches", s.Counts.Lists, s.Counts.Watches)
	}
}

// A list that is cut off changes nothing (L10); the next one does.
func TestL10_AListThatIsCutOffChangesNothing(t *testing.T) {
	plane := shared.Plane(t)
	w := writer{t, clientset(t, plane.Config()), namespace(t, plane.Config())}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 20 {
		value := make([]byte, 10_000) // that does not become short by compression
		for j := range value {
			value[j] = 'a' + byte(random.IntN(26))
		}
		w.create(fmt.Sprintf("cm-%02d", i), string(value))
	}
	proxy := controlplane.StartProxy(t, plane.Address())
	client, err := wire.New(proxy.Config(plane.Config()), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	source, err := wire.For(client, wire.MustOf[*corev1.ConfigMap]().Encoded(wire.JSON)).Source(object.Selection{Namespace: w.namespace}, wire.SourceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := source.Collect(patience.Context(t), object.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	proxy.Cut()
	client.CloseIdleConnections()
	proxy.CutAfter(50_000) // behind the handshake, before the end of the answer
	if list, err := source.Collect(patience.Context(t), object.ListOptions{}); err == nil {
		t.Errorf("%d items of a list that was cut off", len(list.Items))
	}
	proxy.CutAfter(-1)
	if list, err := source.Collect(patience.Context(t), object.ListOptions{}); err != nil || len(list.Items) != 20 {
		t.Errorf("%d items, %v; want 20", len(list.Items), err)
	}
}

// etcd comes back from a backup: versions that were seen are given out again.
func TestW19_ARestoredSnapshotBeginsANewEpoch(t *testing.T) {
	plane := shared.Plane(t)
	proxy := controlplane.StartProxy(t, plane.Address())
	w := writer{t, clientset(t, plane.Config()), namespace(t, plane.Config())}
	w.create("before", "0")
	snapshot, err := plane.Snapshot(patience.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	w.update("before", "1")
	for i := range 200 { // more than what the servers write while they start
		w.update("before", fmt.Sprint(i))
	}
	after := w.create("after", "0")
	m := startMirror(t, proxy.Config(plane.Config()), w.namespace, wire.Protobuf, reflector.StreamingAuto)
	m.reaches(t, after)
	if err := plane.Restore(patience.Context(t), snapshot); err != nil {
		t.Fatal(err)
	}
	revision, err := plane.Revision(patience.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	if revision < snapshot.Revision || object.Version(fmt.Sprint(revision)).After(object.Version(after.ResourceVersion)) {
		t.Fatalf("revision %d after a restore of %d; %s was seen", revision, snapshot.Revision, after.ResourceVersion)
	}
	// A server takes a watch from a version that it has not reached, and says nothing. The
	// reflector lists when the watch breaks again and again.
	patience.Until(t, "a rewind to be noticed", func() bool {
		s := m.reflector()
		if s.Counts.Rewinds == 0 && s.State == reflector.Watching && s.Connected {
			proxy.Cut()
		}
		return s.Counts.Rewinds > 0 && s.State == reflector.Watching
	})
	m.wasTold(t, "delete, final state unknown, after=0")
	m.wasTold(t, "update before=0")
	m.reaches(t, w.create("anew", "0"))
	m.same(t, w.clients, w.namespace)
	if mark := m.reflector().Mark; mark.Epoch != 1 {
		t.Errorf("epoch %d; want 1", mark.Epoch)
	}
}
