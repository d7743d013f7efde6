package clientgo

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/cache/synctrack"

	"github.com/tarnproject/tarn/internal/soak"
)

// Objects that go before a handler hears of them do not hold up its sync, and leave no
// room taken.
func TestAFoldedBacklogForgetsWhatCameAndWent(t *testing.T) {
	l := &listener{tracker: synctrack.NewSingleFileTracker("test"), folded: &backlog{}}
	l.filled.L = &l.mu
	pod := func(i int) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint(i)}}
	}
	for i := range 100 {
		l.add([]note{{kind: added, initial: true, new: pod(i)}}, false)
	}
	l.tracker.UpstreamHasSynced()
	for round := range soak.Rounds(100) {
		for i := range 99 {
			gone := any(pod(i))
			if round%2 == 1 {
				gone = cache.DeletedFinalStateUnknown{Key: fmt.Sprint("shop/", i), Obj: gone}
			}
			l.add([]note{{kind: updated, new: pod(i)}, {kind: deleted, old: gone}}, false)
			l.add([]note{{kind: added, new: pod(i)}}, false)
		}
	}
	if n, want := len(l.folded.notes), 2*100+64; n > want {
		t.Errorf("%d notes for 100 objects, want %d at most", n, want)
	}
	if l.HasSynced() {
		t.Error("synced before the last object of the list was told")
	}
	l.add([]note{{kind: deleted, old: pod(99)}}, false)
	if !l.HasSynced() {
		t.Error("not synced, with nothing of the list left to be told")
	}
	told := 0
	for _, n := range l.take(nil) {
		if n.kind != 0 {
			told++
		}
	}
	if told != 99 || !l.idle() {
		t.Errorf("%d are told, want 99", told)
	}
}
