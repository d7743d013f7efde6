package conformance

import (
	"cmp"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tarnproject/tarn/e2e/controlplane"
	"github.com/tarnproject/tarn/e2e/patience"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
)

// What is here can be asked of the real control plane alone.

func TestTheControlPlaneIsTheVersionThatWasBuilt(t *testing.T) {
	version, err := genuine(t).clientset(t).Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if want := cmp.Or(os.Getenv("KUBERNETES_VERSION"), "v1.36.3"); version.GitVersion != want {
		t.Errorf("got %s, want %s", version.GitVersion, want)
	}
}

// An exact list of a compacted version is refused by etcd itself, and a watch is by an API
// server without a cache.
func TestW08_CompactedVersionsAreGone(t *testing.T) {
	plane := controlplane.Start(t, controlplane.Options{APIServerArgs: []string{"--watch-cache=false"}})
	s := server{config: plane.Config(), address: plane.Address(), plane: plane, namespace: "default"}
	w := writer{t, s}
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
	api := wire.For(client, configMaps)
	all := object.Selection{Namespace: s.namespace}
	if _, _, err := stream.List(patience.Context(t), api, object.ListOptions{Selection: all, Version: first, Match: object.Exact}); !apierrors.IsResourceExpired(err) {
		t.Errorf("the list: %v", err)
	}
	watch, err := stream.Watch(patience.Context(t), api, object.WatchOptions{Selection: all, Version: first})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	events, err := watch.Next()
	if err != nil || len(events) != 1 || events[0].Err == nil || !apierrors.IsResourceExpired(events[0].Err) && !apierrors.IsGone(events[0].Err) {
		t.Errorf("the watch: %v, %v", events, err)
	}
	m := startMirror(t, s.config, configMaps, mirrorOptions[*corev1.ConfigMap]{selection: all})
	m.same(t, s)
}

// A paused API server is silent, and goes on where it stopped.
func TestW13_APausedAPIServerGoesOn(t *testing.T) {
	s := genuine(t)
	w := writer{t, s}
	w.create("a", "0")
	m := startMirror(t, s.config, configMaps, mirrorOptions[*corev1.ConfigMap]{selection: object.Selection{Namespace: s.namespace}})
	m.watches(t)
	if err := s.plane.APIServer.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := s.plane.APIServer.Start(patience.Context(t)); err == nil || !strings.Contains(err.Error(), "paused already") {
		t.Errorf("started while paused: %v", err)
	}
	if err := s.plane.APIServer.Resume(); err != nil {
		t.Fatal(err)
	}
	m.reaches(t, w.update("a", "1"))
	if st := m.reflector(); st.Counts.Lists != 1 || st.Counts.Watches > 2 {
		t.Errorf("%d lists and %d watches", st.Counts.Lists, st.Counts.Watches)
	}
}
