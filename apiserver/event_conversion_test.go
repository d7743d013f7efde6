package apiserver_test

import (
	"net/http"
	"testing"

	"github.com/tarnproject/tarn/apiserver"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestEventsOfBothGroupsAreTheSameObjects(t *testing.T) {
	const core, other = "/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events"
	s := apiserver.Start(t, apiserver.Options{})
	api := clientset(t, s)
	oldWatch, newWatch := watching(t, s, core+"?watch=1&resourceVersion=13"), watching(t, s, other+"?watch=1&resourceVersion=13")
	at := metav1.NowMicro()
	made, err := api.EventsV1().Events("default").Create(t.Context(), &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "a"}, Regarding: corev1.ObjectReference{Kind: "Pod", Name: "web", Namespace: "default", FieldPath: "spec"},
		Note: "hello", Reason: "Started", Type: "Normal", ReportingController: "tarn", ReportingInstance: "tarn-0", EventTime: at,
		Series: &eventsv1.EventSeries{Count: 3, LastObservedTime: at}, DeprecatedCount: 7, DeprecatedSource: corev1.EventSource{Component: "kubelet"},
	}, metav1.CreateOptions{})
	if err != nil || made.Note != "hello" {
		t.Fatalf("%+v %v", made, err)
	}
	seen, err := api.CoreV1().Events("default").Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if seen.UID != made.UID || seen.Message != "hello" || seen.InvolvedObject.Name != "web" || seen.Count != 7 || seen.Source.Component != "kubelet" ||
		seen.Series == nil || seen.Series.Count != 3 || seen.ReportingController != "tarn" || seen.ReportingInstance != "tarn-0" {
		t.Errorf("in the core group: %+v", seen)
	}
	seen.Message = "changed"
	if _, err := api.CoreV1().Events("default").Update(t.Context(), seen, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	fill(t, s, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "default"}, Message: "old", InvolvedObject: corev1.ObjectReference{Name: "db"}})
	do(t, s, http.MethodPatch, other+"/b", `{"note":"patched"}`, "Content-Type", "application/merge-patch+json")
	do(t, s, http.MethodPatch, other+"/c?fieldManager=m", `{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"c"},"regarding":{"name":"web"},"note":"applied","reportingController":"m"}`, "Content-Type", "application/apply-patch+yaml")
	if a := get(t, s, other+"/a"); a.at("note") != "changed" || a.at("apiVersion") != "events.k8s.io/v1" || a.at("regarding", "fieldPath") != "spec" || a.at("message") != "" {
		t.Errorf("a: %s", a.raw)
	}
	if a := get(t, s, core+"/b"); a.at("message") != "patched" || a.at("apiVersion") != "v1" {
		t.Errorf("b: %s", a.raw)
	}
	if a := get(t, s, core+"/c"); a.at("message") != "applied" || a.at("involvedObject", "name") != "web" || a.at("reportingComponent") != "m" {
		t.Errorf("c: %s", a.raw)
	}
	for path, want := range map[string]int{
		core: 3, other: 3, core + "?fieldSelector=involvedObject.name%3Dweb": 2, other + "?fieldSelector=regarding.name%3Dweb": 2,
		other + "?fieldSelector=reportingController%3Dtarn": 1, core + "?fieldSelector=source%3Dm": 1,
	} {
		if a := get(t, s, path); len(a.names()) != want {
			t.Errorf("%s: %d %v", path, a.code, a.names())
		}
	}
	get(t, s, other+"?fieldSelector=involvedObject.name%3Dweb").refused(t, http.StatusBadRequest, "BadRequest", "field label not supported")
	list, err := api.EventsV1().Events("default").List(t.Context(), listAll)
	if err != nil || len(list.Items) != 3 || list.Items[0].Note != "changed" {
		t.Errorf("%+v %v", list, err)
	}
	if err := api.EventsV1().Events("default").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, w := range []*events{oldWatch, newWatch} {
		w.expect(t, "ADDED a 14", "MODIFIED a 15", "ADDED b 16", "MODIFIED b 17", "ADDED c 18", "DELETED a 19")
	}
	if n := s.Cut("events.events.k8s.io"); n != 1 || s.Watches("events.events.k8s.io") > 1 {
		t.Errorf("cut %d", n)
	}
	newWatch.expect(t, "cut")
}
