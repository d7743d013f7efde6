package informer_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// deleteNow deletes a pod as a client does.
func deleteNow(inf *podInformer, srv *simtest.Server[*corev1.Pod], key string) {
	b := inf.Writes().Begin(object.RawKey(key))
	b.Deleting(object.Deletion{UID: srv.Delete(key).UID})
}

func TestR01_DeletedAndCreatedAndDeletedAgainIsNotReadAsTheFirstObject(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("shop/a")
		inf := newInformer(t, srv.Source(via), podOptions{})
		start(t, inf)
		synctest.Wait()
		srv.Hold(true)
		deleteNow(inf, srv, "shop/a")
		wrote(t, inf, srv.Set("shop/a"))
		deleteNow(inf, srv, "shop/a")
		if !inf.Writes().Pending(keyA) {
			t.Error("the first object is read after the deletion of the second")
		}
		srv.Hold(false)
		synctest.Wait()
		if _, ok, err := read(t, inf, keyA); ok || err != nil || inf.Status().PendingWrites != 0 {
			t.Errorf("%v, %v, %d tracked", ok, err, inf.Status().PendingWrites)
		}
	})
}

func TestR01_ALateAnswerOfAnEarlierObjectHidesNoLaterWrite(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("shop/a")
		inf := newInformer(t, srv.Source(via), podOptions{})
		start(t, inf)
		synctest.Wait()
		late := inf.Writes().Begin(keyA)
		first := srv.Delete("shop/a")
		synctest.Wait()
		srv.Hold(true)
		wrote(t, inf, srv.Set("shop/a"))
		late.Deleting(object.Deletion{UID: first.UID})
		if !inf.Writes().Pending(keyA) {
			t.Error("the object that this process made is not waited for")
		}
		srv.Hold(false)
		synctest.Wait()
		if pod, ok, err := read(t, inf, keyA); !ok || err != nil || pod.UID == first.UID {
			t.Errorf("%v, %v, %v", pod, ok, err)
		}
	})
}

func TestR01_AnObjectThatLeavesTheSelectionAndComesBackIsNotReadInAnOlderState(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods()
		held := srv.Set("shop/a", labeled(map[string]string{"app": "web"})) // 101
		inf := newInformer(t, srv.Source(via), podOptions{Selection: object.Selection{Labels: "app=web"}})
		start(t, inf)
		synctest.Wait()
		// Another writer removed the label at 102 and restored it at 103; this process removed it at 104.
		b := inf.Writes().Begin(keyA)
		srv.Delete("shop/a")
		synctest.Wait()
		if err := b.Wrote(answer(held, "104", labeled(nil))); err != nil {
			t.Fatal(err)
		}
		if _, _, err := read(t, inf, keyA); !errors.Is(err, informer.ErrNotCovered) {
			t.Errorf("at 102: %v", err)
		}
		srv.Set("shop/a", func(p *corev1.Pod) { p.UID = held.UID })
		synctest.Wait()
		if !inf.Writes().Pending(keyA) {
			t.Error("the state of 103 is read after the write of 104")
		}
	})
}

func TestR02_WritesToNamespacesThatAreNotMirroredLeaveNothing(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods()
		inf := newInformer(t, srv.Source(via), podOptions{Namespaces: []string{"shop"}})
		start(t, inf)
		synctest.Wait()
		for i := range soak.Rounds(500) {
			pod := newPod(fmt.Sprint("bank/p", i), fmt.Sprint("u", i))
			wrote(t, inf, answer(pod, strconv.Itoa(200+i)))
			deletion := inf.Writes().Begin(simtest.KeyOf(pod))
			deletion.Deleting(object.Deletion{UID: pod.UID})
		}
		simtest.Want(t, "tracked", inf.Status().PendingWrites, 0)
	})
}

func TestR02_EveryUnreadableObjectIsReportedHoweverManyThereAre(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods()
		bad := labeled(map[string]string{"bad": "1"})
		for i := range 1100 {
			srv.Set(fmt.Sprint("shop/p", i), bad)
		}
		inf := newInformer(t, srv.Source(via), podOptions{Transform: picky})
		start(t, inf)
		synctest.Wait()
		wrote(t, inf, srv.Set("shop/a", bad))
		synctest.Wait()
		var q *informer.QuarantinedError
		if _, ok, err := read(t, inf, keyA); ok || !errors.As(err, &q) || !errors.Is(err, errBad) {
			t.Errorf("%v, %v", ok, err)
		}
		if st := inf.Status(); len(st.Quarantine) != 1000 || st.Sources[0].Reflector.Quarantined != 1101 {
			t.Errorf("%d listed of %d", len(st.Quarantine), st.Sources[0].Reflector.Quarantined)
		}
		srv.Delete("shop/a")
		synctest.Wait()
		if _, ok, err := read(t, inf, keyA); ok || err != nil || inf.Status().PendingWrites != 0 {
			t.Errorf("after its deletion: %v, %v", ok, err)
		}
	})
}

var errForm = errors.New("the form refuses it")

// choosy is a form that refuses some objects.
func choosy() *store.Form[*corev1.Pod] {
	return store.Packed(func(p *corev1.Pod) ([]byte, error) {
		if p.Labels["bad"] != "" {
			return nil, errForm
		}
		return p.Marshal()
	}, decodePod)
}

// keep is a transform that changes nothing. Without one, what is received is held without being encoded.
func keep(p *corev1.Pod) (*corev1.Pod, error) { return p, nil }

func TestR02_AnObjectThatTheFormRefusesIsReported(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("shop/b")
		inf := newInformer(t, srv.Source(via), podOptions{Form: choosy(), Transform: keep})
		start(t, inf)
		synctest.Wait()
		bad := labeled(map[string]string{"bad": "1", "tier": "x"})
		for _, key := range []string{"shop/a", "shop/b"} { // created, updated
			wrote(t, inf, srv.Set(key, bad))
			for range 2 {
				synctest.Wait()
				var q *informer.QuarantinedError
				if _, ok, err := read(t, inf, object.RawKey(key)); ok || !errors.As(err, &q) || !errors.Is(err, errForm) {
					t.Errorf("%s: %v, %v", key, ok, err)
				}
				srv.Expire() // a list refuses it again
				simtest.Advance(time.Minute)
			}
		}
		tier := func(value string) informer.Part {
			selector, _ := labels.Parse("tier=" + value)
			return informer.Part{Labels: selector}
		}
		for name, c := range map[string]struct {
			part informer.Part
			bad  bool
		}{
			"everything":        {informer.Part{}, true},
			"its namespace":     {informer.Part{Namespaces: []string{"shop"}}, true},
			"another namespace": {informer.Part{Namespaces: []string{"bank"}}, false},
			"its labels":        {tier("x"), true},
			"other labels":      {tier("y"), false},
		} {
			snap, err := inf.Writes().Snapshot(t.Context(), c.part)
			if err == nil {
				snap.Release()
			}
			if errors.Is(err, errForm) != c.bad || !c.bad && err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, key := range []string{"shop/a", "shop/b"} {
			srv.Set(key, labeled(nil))
			synctest.Wait()
			if _, ok, err := read(t, inf, object.RawKey(key)); !ok || err != nil || inf.Unreadable(object.RawKey(key)) != nil {
				t.Errorf("%s: after a good version: %v, %v", key, ok, err)
			}
		}
		simtest.Want(t, "tracked", inf.Status().PendingWrites, 0)
	})
}

// A namespace that is added is listed as it is now: the server's cache may lag behind what this process
// wrote to it before.
func TestR01_ANamespaceIsAddedWithWhatWasWrittenToIt(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		srv := simtest.Pods("shop/a")
		inf := newInformer(t, srv.Source(via), podOptions{Namespaces: []string{"shop"}})
		start(t, inf)
		synctest.Wait()
		wrote(t, inf, srv.Set("bank/a"))
		srv.Requests()
		if err := inf.SetNamespaces("shop", "bank"); err != nil {
			t.Fatal(err)
		}
		if err := inf.WaitSynced(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, req := range srv.Requests() {
			if req == `LIST "0"` || req == `LIST "0" limit=500` {
				t.Errorf("requested %s, which may be of any age", req)
			}
		}
	})
}
