package protodec

import (
	"bytes"
	"fmt"
	"math/rand"
	"reflect"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/internal/intern"
	"github.com/tarnproject/tarn/internal/soak"
)

func TestDecodersStopAskingWhereItDoesNotPay(t *testing.T) {
	var h hitRate
	for range hitRateWindow {
		if !h.worth() {
			t.Fatal("gave up before the window's end")
		}
		h.note(false)
	}
	for i := range hitRatePause {
		if h.worth() {
			t.Fatalf("asked again after %d", i)
		}
	}
	for range 3 * hitRateWindow {
		if !h.worth() {
			t.Fatal("did not try again")
		}
		h.note(true)
	}
}

func TestWhatAFieldBeginsWithIsLearnedApartFromTheRest(t *testing.T) {
	var p place[string]
	for object := uint32(1); object <= 3*hitRateWindow; object++ {
		first, second := p.next(object), p.next(object)
		if first.worth() {
			first.note(false)
		}
		if !second.worth() {
			t.Fatal("the second gave up with the first")
		}
		second.note(true)
	}
	if p.next(1_000_000).worth() {
		t.Error("the first did not give up")
	}
	for range 3 * maxTurns {
		p.next(1_000_001)
	}
	if len(p.turns) != maxTurns {
		t.Errorf("%d turns", len(p.turns))
	}
}

// stateOf returns an engine with a state of its own, not from the pool, which forgets.
func stateOf[T any](opts Options) (*engine, *state) {
	e := must(newEngine(reflect.TypeFor[T](), opts))
	s := e.states.New().(*state)
	s.share = e.share
	return e, s
}

// fleet returns objects of a few templates in a random order, in which lists, maps and
// single fields are there or not, so that what a field holds is now and then that of
// the object before, and now and then at another place.
func fleet(rng *rand.Rand) *corev1.Pod {
	pod := replica(rng.Intn(3))
	app := fmt.Sprintf("app-%d", rng.Intn(3))
	for i := range rng.Intn(2 * maxTurns) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodConditionType(fmt.Sprintf("Condition%d", (i+rng.Intn(2))%5)), Status: corev1.ConditionTrue, Reason: app,
		})
	}
	for i := range rng.Intn(3) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: fmt.Sprintf("volume-%d", i+rng.Intn(2)), VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: app}},
		}})
	}
	if rng.Intn(2) == 0 {
		pod.Labels["app"] = app
		pod.Spec.Containers[0].Image = app
	}
	if rng.Intn(4) == 0 {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "proxy", Image: app})
	}
	if rng.Intn(8) == 0 {
		pod.Namespace, pod.Labels = "", nil
	}
	return pod
}

func TestObjectsThatAreMuchAlikeStayApart(t *testing.T) {
	rng := rand.New(rand.NewSource(6))
	for _, limit := range []int{100, 30_000, 0} {
		share := intern.NewParts(limit)
		e, s := stateOf[corev1.Pod](Options{Strings: intern.NewStrings(64), Share: share})
		for range soak.Rounds(3_000) {
			want := fleet(rng)
			raw := must(want.Marshal())
			p, err := s.object(e.root, raw)
			for i := range raw {
				raw[i] = 0xA5
			}
			if got := (*corev1.Pod)(p); err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("limit %d: %v\n got %#v\nwant %#v", share.Limit(), err, got, want)
			}
		}
		held := 0
		for i := range s.units {
			for _, turn := range s.units[i].turns {
				if turn.last != nil {
					held += turn.last.Cost
				}
			}
		}
		if held != s.recall || held > share.Limit()/recallShare {
			t.Errorf("limit %d: parts of %d bytes held, counted as %d", share.Limit(), held, s.recall)
		}
		if limit == 0 && held == 0 {
			t.Error("no part is held")
		}
	}
}

func TestAPartIsFoundWithoutTheTable(t *testing.T) {
	e, s := stateOf[corev1.Pod](Options{Strings: intern.NewStrings(0), Share: intern.NewParts(0)})
	decode := func(i int) *corev1.Pod {
		return (*corev1.Pod)(must(s.object(e.root, must(replica(i).Marshal()))))
	}
	var last *corev1.Pod
	for i := range 4 {
		last = decode(i)
	}
	s.share, s.strings = intern.NewParts(0), intern.NewStrings(0) // what these do not hold, they cannot have found
	now := decode(5)
	if &now.Spec.Containers[0] != &last.Spec.Containers[0] {
		t.Error("the containers are not those of the pod before")
	}
	if unsafe.StringData(now.Namespace) != unsafe.StringData(last.Namespace) {
		t.Error("the namespace is not that of the pod before")
	}
}

// A part that objects have in common is used without asking the table. It must not be
// displaced for that by others, each of which the table is asked for twice.
func TestAPartInUseIsNotDisplacedByOthers(t *testing.T) {
	share := intern.NewParts(200_000)
	e, s := stateOf[metav1.PartialObjectMetadata](Options{Share: share})
	decode := func(app, note string) *metav1.PartialObjectMetadata {
		o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{"app": app}, Finalizers: []string{note},
		}}
		return (*metav1.PartialObjectMetadata)(must(s.object(e.root, must(o.Marshal()))))
	}
	labels := func(o *metav1.PartialObjectMetadata) unsafe.Pointer { return reflect.ValueOf(o.Labels).UnsafePointer() }
	for range 3 {
		decode("web", "none")
	}
	first := labels(decode("web", "none"))
	for i := range 5_000 {
		for range 3 { // found one time in three, so that asking goes on
			decode("web", fmt.Sprint(i))
		}
	}
	if st := share.Stats(); st.Displaced < 1_000 {
		t.Fatalf("nothing was displaced: %+v", st)
	}
	other := e.states.New().(*state) // which has only the table
	other.share = share
	raw := must((&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}}).Marshal())
	if labels((*metav1.PartialObjectMetadata)(must(other.object(e.root, raw)))) != first {
		t.Error("the labels are no longer in the table")
	}
}

func TestTouchLeavesMemoryUnchanged(t *testing.T) {
	for _, size := range []int{0, 1, 8, pageSize - 1, pageSize, pageSize + 1, 3*pageSize + 5} {
		b := bytes.Repeat([]byte{0xA5}, size+16)
		clear(b[8 : 8+size])
		want := bytes.Clone(b)
		touch(unsafe.Pointer(&b[8]), size)
		if !bytes.Equal(b, want) {
			t.Errorf("%d bytes: something was changed", size)
		}
	}
}
