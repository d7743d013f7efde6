package clientgo_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/clientgo"
)

// An object that has another UID after a relist is reported as one update, and each object after it
// in the list is reported correctly too. The UIDs have the form that servers give, because the store
// notes no others.
func TestARelistReportsANewUIDAndAllAfterIt(t *testing.T) {
	const first, second = "11111111-2222-4333-8444-555555555555", "66666666-2222-4333-8444-555555555555"
	for _, streaming := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newPodServer(streaming)
			w.put("a1", false, func(pod *corev1.Pod) { pod.UID = first })
			w.put("b1", false)
			w.put("d1", false)
			inf := clientgo.NewSharedIndexInformer(w, &corev1.Pod{}, 0, cache.Indexers{})
			h := listen(t, inf)
			start(t, inf)
			synctest.Wait()
			h.take()
			w.locked(func() { // no list in between
				w.expire(true)
				w.put("a1", true, func(pod *corev1.Pod) { pod.UID = second })
				w.put("b1", false)
				w.put("c1", false)
				w.delete("d1")
				w.expire(true)
			})
			<-time.After(time.Minute)
			lives := []string{"ns1/a1: update " + first + "@11 on node-2 to " + second + "@15 on node-0"}
			wantLines(t, h, append(lives,
				"ns1/b1: update 00000002-2222-4333-8444-555555555555@12 on node-0 to 00000002-2222-4333-8444-555555555555@16 on node-1",
				"ns1/c1: add 00000005-2222-4333-8444-555555555555@17 on node-2 initial=false",
				"ns1/d1: vanished 00000003-2222-4333-8444-555555555555@13 on node-1")...)
		})
	}
}
