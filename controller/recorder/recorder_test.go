package recorder_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/controller/recorder"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
)

func TestAnEventHasTheFieldsThatKubectlShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, recorder.Options{Instance: "web-1"})
		begin := time.Now()
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
		r.Eventf(pod("web"), node, "Warning", "FailedScheduling", "Binding", "0/%d nodes", 3)
		simtest.Advance(time.Second)
		r.want(1, 0, 0, 0)
		name := r.events()[0].Name
		obj, err := r.server.Get(corev1.SchemeGroupVersion.WithResource("events"), object.Key{Namespace: "default", Name: name})
		if err != nil {
			t.Fatal(err)
		}
		e := obj.(*corev1.Event) // what kubectl reads
		if e.Type != "Warning" || e.Reason != "FailedScheduling" || e.Action != "Binding" || e.Message != "0/3 nodes" ||
			e.ReportingController != "web" || e.ReportingInstance != "web-1" || !e.EventTime.Time.Equal(begin) || e.Series != nil {
			t.Errorf("%+v", e)
		}
		if want := (corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "web", UID: "u-1", ResourceVersion: "7"}); e.InvolvedObject != want {
			t.Errorf("about %+v; want %+v", e.InvolvedObject, want)
		}
		if want := (corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "n1"}); e.Related == nil || *e.Related != want {
			t.Errorf("related to %+v; want %+v", e.Related, want)
		}
		if !strings.HasPrefix(name, "web.") {
			t.Errorf("the name is %q", name)
		}
		percent := "100%" // not a format
		r.Normal(node, "Ready", percent, []any(nil)...)
		r.Warning(pod("web"), "Failed", "%s", "no room")
		simtest.Advance(time.Second)
		if all := r.events(); len(all) != 3 || all[1].Note != "100%" || all[1].Namespace != "default" || all[1].Regarding.Namespace != "" || all[1].Action != "Ready" ||
			all[2].Note+all[1].Note != "no room100%" && all[1].Note+all[2].Note != "no room100%" {
			t.Errorf("%+v", all)
		}
	})
}

// A loop that records the same event all the time makes few requests, and the count is exact.
func TestEqualEventsBecomeASeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, recorder.Options{})
		var last time.Time
		const n = 36_000
		for i := range n {
			p := pod("web")
			p.ResourceVersion = fmt.Sprint(i) // the same object all the same
			last = time.Now()
			r.Warning(p, "BackOff", "restarting")
			simtest.Advance(100 * time.Millisecond)
		}
		// Updates after 10, 30, 70, 150, 310 s, and then every 5 minutes of an hour.
		if got, want := r.sent(), "POST"+strings.Repeat(" PATCH", 5+10); got != want {
			t.Errorf("requests: %s; want %s", got, want)
		}
		simtest.Advance(5 * time.Minute)
		r.want(n, 0, 0, 0)
		all := r.events()
		if len(all) != 1 || all[0].Series == nil || all[0].Series.Count != n || !all[0].Series.LastObservedTime.Time.Equal(last) {
			t.Fatalf("%d events, %+v; want one with a count of %d, last at %v", len(all), all[0].Series, n, last)
		}
		// Six minutes after the last one it is a new Event.
		simtest.Advance(time.Until(last.Add(6 * time.Minute)))
		r.Warning(pod("web"), "BackOff", "restarting")
		simtest.Advance(6*time.Minute + 1)
		r.Warning(pod("web"), "BackOff", "restarting")
		simtest.Advance(time.Minute)
		if all := r.events(); len(all) != 2 || all[0].Series.Count != n+1 || all[1].Series != nil {
			t.Errorf("%d events; want a second one", len(all))
		}
	})
}

func TestManyNotesAreCombined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, recorder.Options{})
		for i := range 30 {
			r.Normal(pod("web"), "Tick", "note %d", i)
			r.Normal(pod("other"), "Tick", "note %d", i%10) // has only 10
		}
		r.Normal(pod("web"), "Tick", "note 3") // has its own
		simtest.Advance(time.Minute)
		ticks := map[string]int{}
		for _, e := range r.events() {
			if e.Regarding.Name == "web" {
				ticks[e.Note] = occurrences(e)
			}
		}
		if len(ticks) != 11 || r.counts()["note 9"] != 4 || ticks["(combined from similar events): note 10"] != 20 || ticks["note 3"] != 2 || ticks["note 9"] != 1 {
			t.Errorf("%v", ticks)
		}
		r.want(61, 0, 0, 0)
		// After ten minutes without any, notes are written as they are.
		simtest.Advance(10*time.Minute + 1)
		r.Normal(pod("web"), "Tick", "note 40")
		simtest.Advance(time.Second)
		if r.counts()["note 40"] != 1 {
			t.Errorf("%v", r.counts())
		}
	})
}

func TestRequestsForAnObjectAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, recorder.Options{})
		for i := range 100 {
			r.Normal(pod("web"), fmt.Sprint("Reason", i), "note")
		}
		simtest.Advance(time.Second)
		r.want(25, 75, 0, 0)
		r.Warning(pod("web"), "Failed", "note")   // another type
		r.Normal(pod("other"), "Reason0", "note") // another object
		simtest.Advance(time.Second)
		r.want(27, 75, 0, 0)
		r.Normal(pod("web"), "Reason0", "note") // the update of a series waits for its turn
		simtest.Advance(4 * time.Minute)
		r.want(27, 75, 0, 1)
		simtest.Advance(time.Minute)
		r.want(28, 75, 0, 0)
		simtest.Advance(5 * time.Minute)
		r.Normal(pod("web"), "New1", "note")
		r.Normal(pod("web"), "New2", "note")
		simtest.Advance(time.Second)
		r.want(29, 76, 0, 0)
	})
}

func TestADeletedEventIsCreatedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, recorder.Options{})
		r.Normal(pod("web"), "Tick", "note")
		simtest.Advance(time.Minute)
		first := r.events()[0]
		if err := r.server.Delete(first); err != nil {
			t.Fatal(err)
		}
		r.Normal(pod("web"), "Tick", "note")
		simtest.Advance(time.Minute)
		all := r.events()
		if got := r.sent(); got != "POST PATCH POST" || len(all) != 1 || all[0].Series.Count != 2 || !all[0].EventTime.Equal(&first.EventTime) {
			t.Errorf("%s; %+v", got, all)
		}
		r.want(2, 0, 0, 0)
	})
}

func TestAForbiddenEventIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := start(t, recorder.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		allow := r.inject(apiserver.Fault{Kind: apiserver.Forbidden, Resource: "events.events.k8s.io"})
		for i := range 5 {
			r.Normal(pod("web"), "Tick", "note %d", i)
		}
		simtest.Advance(time.Hour)
		r.want(0, 0, 5, 0)
		if r.Status().LastError == nil || strings.Count(log.String(), "an event could not be written") != 1 || r.sent() != "POST POST POST POST POST" {
			t.Errorf("%v, %s", r.Status().LastError, log.String())
		}
		allow()
		r.Normal(pod("web"), "Tick", "note 0")
		simtest.Advance(time.Second)
		deny := r.inject(apiserver.Fault{Kind: apiserver.Forbidden, Resource: "events.events.k8s.io", Verb: "patch"})
		r.Normal(pod("web"), "Tick", "note 0")
		simtest.Advance(time.Minute)
		r.want(1, 0, 6, 0)
		deny()
		r.Normal(pod("web"), "Tick", "note 0") // with the total
		simtest.Advance(time.Minute)
		r.want(2, 0, 6, 0)
		if r.counts()["note 0"] != 3 {
			t.Errorf("%v", r.counts())
		}
	})
}

func TestRequestsAreRepeatedWhileTheServerIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, recorder.Options{})
		up := r.inject(apiserver.Fault{Kind: apiserver.InternalError})
		for range 3 {
			r.Normal(pod("web"), "Tick", "note")
		}
		simtest.Advance(time.Minute)
		r.want(0, 0, 0, 3)
		up()
		simtest.Advance(15 * time.Second)
		r.want(3, 0, 0, 0)
		if r.counts()["note"] != 3 {
			t.Errorf("%v", r.counts())
		}
		// It is given up in the end.
		r.inject(apiserver.Fault{Kind: apiserver.InternalError})
		r.Normal(pod("other"), "Tick", "note")
		simtest.Advance(5 * time.Minute)
		r.want(3, 0, 1, 0)
		r.server.Clear()
	})
}

// The server created the Event, and the response was lost.
func TestALostResponseDoesNotMakeASecondEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, recorder.Options{})
		r.inject(apiserver.Fault{Kind: apiserver.TruncateBody, Verb: "create", Times: 1})
		r.Normal(pod("web"), "Tick", "note")
		simtest.Advance(time.Second)
		r.want(0, 0, 0, 1)
		r.Normal(pod("web"), "Tick", "note")
		simtest.Advance(time.Minute)
		r.want(2, 0, 0, 0)
		if all := r.events(); len(all) != 1 || occurrences(all[0]) != 2 {
			t.Errorf("%+v", all)
		}
	})
}

func TestWhatIsPendingIsSentAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, recorder.Options{})
		for range 7 {
			r.Normal(pod("web"), "Tick", "note")
			synctest.Wait()
		}
		r.want(1, 0, 0, 6)
		begin := time.Now()
		r.stop()
		r.want(7, 0, 0, 0)
		if r.counts()["note"] != 7 || time.Since(begin) != 0 {
			t.Errorf("%v after %v", r.counts(), time.Since(begin))
		}
		r.Normal(pod("web"), "Tick", "note") // waits for the next Run
		r.want(7, 0, 0, 1)
		r.start()
		simtest.Advance(time.Minute)
		r.want(8, 0, 0, 0)
		if err := r.Run(context.Background()); err == nil || err.Error() != "recorder: already running" {
			t.Error(err)
		}
	})
}

func TestTheEndIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, recorder.Options{})
		r.Normal(pod("a"), "Tick", "note")
		synctest.Wait()
		r.inject(apiserver.Fault{Kind: apiserver.Stall})
		r.Normal(pod("a"), "Tick", "note")
		r.Normal(pod("b"), "Tick", "note")
		r.Normal(pod("c"), "Tick", "note")
		simtest.Advance(time.Second)
		begin := time.Now()
		r.stop()
		if d := time.Since(begin); d != grace {
			t.Errorf("ended after %v; want %v", d, grace)
		}
		r.want(1, 2, 1, 0) // one was on its way
		r.server.Clear()
		r.start()
		r.Normal(pod("c"), "Tick", "note")
		r.Normal(pod("a"), "Tick", "note")
		simtest.Advance(time.Minute)
		r.want(3, 2, 1, 0)
	})
}

func TestRecordingNeverBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, recorder.Options{Buffer: 10})
		for i := range 50 {
			r.Normal(pod(fmt.Sprint("p", i)), "Tick", "note")
			r.Normal(pod("p0"), "Tick", "note") // takes no place
		}
		r.want(0, 40, 0, 60)
		r.start()
		simtest.Advance(time.Minute)
		r.want(60, 40, 0, 0)
	})
}

// Lamp is a custom resource that names its resource.
type Lamp struct {
	metav1.TypeMeta
	metav1.ObjectMeta
}

// APIResource returns the resource of lamps.
func (*Lamp) APIResource() object.Resource {
	return object.Resource{Group: "home.example", Version: "v1", Resource: "lamps", Kind: "Lamp", Namespaced: true}
}

// Unknown does not.
type Unknown struct {
	metav1.TypeMeta
	metav1.ObjectMeta
}

func TestTheKindOfAnObjectIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, recorder.Options{})
		meta := metav1.ObjectMeta{Namespace: "default", Name: "x"}
		for name, obj := range map[string]recorder.Object{
			"home.example/v1 Lamp":  &Lamp{ObjectMeta: meta},
			"home.example/v2 Torch": &Lamp{ObjectMeta: meta, TypeMeta: metav1.TypeMeta{APIVersion: "home.example/v2", Kind: "Torch"}},
			"a/v1 B":                &Unknown{ObjectMeta: meta, TypeMeta: metav1.TypeMeta{APIVersion: "a/v1", Kind: "B"}},
			"v1 Pod":                &corev1.Pod{ObjectMeta: meta},
			"c/v1 D": &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "c/v1", "kind": "D", "metadata": map[string]any{"namespace": "default", "name": "x"},
			}},
		} {
			r.Normal(obj, "Tick", "%s", name)
		}
		r.Eventf(&corev1.ObjectReference{APIVersion: "e/v1", Kind: "F", Namespace: "default", Name: "x"}, nil, "Normal", "Tick", "Ticking", "e/v1 F")
		simtest.Advance(time.Second)
		r.want(6, 0, 0, 0)
		for _, e := range r.events() {
			if got := e.Regarding.APIVersion + " " + e.Regarding.Kind; got != e.Note {
				t.Errorf("%s; want %s", got, e.Note)
			}
		}
		r.Normal(&Unknown{}, "Tick", "note")
		if err := r.Status().LastError; err == nil || !strings.Contains(err.Error(), "APIResource") {
			t.Error(err)
		}
		r.Normal(nil, "Tick", "note")
		r.Normal((*corev1.Pod)(nil), "Tick", "note")
		r.Normal(pod("web"), "", "note")
		r.Eventf(&metav1.Status{}, nil, "Normal", "Tick", "Ticking", "note")
		r.Eventf(pod("web"), nil, "Loud", "Tick", "Ticking", "note")
		r.want(6, 6, 0, 0)
	})
}

func TestNamesAndNotesAreValid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, recorder.Options{Instance: strings.Repeat("é", 100)})
		note := strings.Repeat("x", 1023) + "é"
		r.Normal(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "system:node"}}, "Tick", "%s", note)
		r.Normal(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("n", 253)}}, "Tick", "\xff%s", note)
		simtest.Advance(time.Second)
		r.want(2, 0, 0, 0)
		for _, e := range r.events() {
			if len(e.Name) != 36 || len(e.Note) < 1022 || len(e.Note) > 1024 || !utf8.ValidString(e.Note) || len(e.ReportingInstance) != 128 {
				t.Errorf("name %q, note of %d bytes, instance of %d", e.Name, len(e.Note), len(e.ReportingInstance))
			}
		}
	})
}
