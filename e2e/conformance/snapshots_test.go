package conformance

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/tarnproject/tarn/e2e/patience"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// S01, S02, S07: during writes, each snapshot equals what the server lists at exactly its
// version. So do its indexes, also for a label selector.
func TestS01_S02_S07_SnapshotsAreTheServersStates(t *testing.T) {
	onBoth(t, func(t *testing.T, s server) {
		m := startMirror(t, s.config, configMaps, plain(s, nil))
		byValue := store.NewIndex("value", func(cm *corev1.ConfigMap) string { return cm.Data["value"] })
		byLabel := store.NewLabelIndex(object.Meta[*corev1.ConfigMap]().Labels)
		m.AddIndex(byValue)
		m.AddIndex(byLabel)
		var mu sync.Mutex
		var snapshots []store.Snapshot[*corev1.ConfigMap]
		events := 0
		sub, err := m.Subscribe(informer.Handler[*corev1.ConfigMap]{
			OnAdd: func(*corev1.ConfigMap, bool) {
				mu.Lock()
				defer mu.Unlock()
				if events++; events%4 == 0 {
					snapshots = append(snapshots, m.Snapshot())
				}
			},
		}, informer.SubOptions[*corev1.ConfigMap]{})
		if err != nil {
			t.Fatal(err)
		}
		w := writer{t, s}
		random := rand.New(rand.NewPCG(1, 2))
		value := func() string { return fmt.Sprint(random.IntN(3)) }
		alive := map[string]string{}    // versions
		deleted := map[[2]string]bool{} // names and last versions
		for i := range 100 {
			name := fmt.Sprint("n", random.IntN(15))
			switch {
			case alive[name] == "":
				alive[name] = w.create(name, value()).ResourceVersion
			case random.IntN(3) == 0:
				w.delete(name)
				deleted[[2]string{name, alive[name]}] = true
				delete(alive, name)
			default:
				alive[name] = w.update(name, fmt.Sprint(i%3)).ResourceVersion
			}
		}
		m.same(t, s)
		sub.Remove()
		<-sub.Done()
		mu.Lock()
		defer mu.Unlock()
		if len(snapshots) < 5 {
			t.Fatalf("%d snapshots", len(snapshots))
		}
		selector, err := labels.Parse("value in (1,2)")
		if err != nil {
			t.Fatal(err)
		}
		api := s.clientset(t).CoreV1().ConfigMaps(s.namespace)
		for _, snap := range snapshots {
			exact := func(selector string) map[string]string {
				list, err := api.List(patience.Context(t), metav1.ListOptions{
					ResourceVersion: string(snap.Version()), ResourceVersionMatch: metav1.ResourceVersionMatchExact, LabelSelector: selector,
				})
				if err != nil {
					t.Fatal(err)
				}
				return versionsOf(func(yield func(*corev1.ConfigMap) bool) {
					for i := range list.Items {
						if !yield(&list.Items[i]) {
							return
						}
					}
				})
			}
			// A snapshot may already have the deletion that follows its version (object.Mark). The
			// writer makes one at a time.
			got, want := versionsOf(snap.All()), exact("")
			ahead := [2]string{}
			for name, version := range want {
				if at := [2]string{name, version}; ahead[0] == "" && got[name] == "" && deleted[at] {
					ahead = at
				}
			}
			same := func(got, want map[string]string) bool {
				if want[ahead[0]] == ahead[1] {
					delete(want, ahead[0])
				}
				return maps.Equal(got, want)
			}
			if !same(got, want) {
				t.Errorf("S01 at %s the mirror has %v, the server %v", snap.Version(), got, want)
			}
			if got, want := versionsOf(byValue.Get(snap, "1")), exact("value=1"); !same(got, want) {
				t.Errorf("S02 at %s the index has %v, the server %v", snap.Version(), got, want)
			}
			if got, want := versionsOf(byLabel.Select(snap, selector)), exact(selector.String()); !same(got, want) {
				t.Errorf("S07 at %s the index has %v, the server %v", snap.Version(), got, want)
			}
			snap.Release()
		}
	})
}

func versionsOf(objects func(func(*corev1.ConfigMap) bool)) map[string]string {
	versions := map[string]string{}
	for cm := range objects {
		versions[cm.Name] = cm.ResourceVersion
	}
	return versions
}
