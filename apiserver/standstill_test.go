package apiserver

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// fewAtOnce is a limit that a test reaches soon.
const fewAtOnce = 50

// touch triggers itself: each update is the cause of the next one.
func touch(ctx context.Context, cfg *rest.Config) error {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	maps := client.CoreV1().ConfigMaps("default")
	w, err := maps.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		m, ok := e.Object.(*corev1.ConfigMap)
		if !ok || ctx.Err() != nil {
			break
		}
		patch := []byte(`{"data":{"seen":"` + m.ResourceVersion + `"}}`)
		if _, err := maps.Patch(ctx, m.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

var someMap = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}

// Virtual time does not pass while a program repeats requests without a pause, so without a limit these tests
// never end.
func TestE01_AProgramThatStopsVirtualTimeFailsTheTest(t *testing.T) {
	for name, c := range map[string]struct {
		program func(ctx context.Context, cfg *rest.Config) error
		want    string
	}{
		"it triggers itself": {touch, `times patch resource "configmaps" in API group "" in the namespace "default", web`},
		"it tries again at once": {func(ctx context.Context, cfg *rest.Config) error {
			for ctx.Err() == nil {
				if resp, err := (&http.Client{Transport: cfg.Transport}).Get(cfg.Host + "/apis/example.com/v1/lakes"); err == nil {
					resp.Body.Close()
				}
			}
			return nil
		}, `times list resource "lakes" in API group "example.com" at the cluster scope`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var test recorder
				s := Start(&test, Options{})
				s.standstill.limit = freeAtOnce + fewAtOnce
				s.Supervise(&test, c.program)
				if _, err := s.Create(someMap); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				if err := s.WaitIdle(t.Context(), time.Minute); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("waiting until it is idle: %v", err)
				}
				if passed := time.Since(began); passed != time.Minute {
					t.Errorf("%v passed", passed)
				}
				failed := reversed(&test)
				if len(failed) != 1 || !strings.Contains(failed[0], "virtual time stands still") || !strings.Contains(failed[0], c.want) {
					t.Errorf("the test failed with %q", failed)
				}
			})
		})
	}
}

// reversed ends a test as testing does: the last cleanup runs first.
func reversed(r *recorder) []string {
	for i, j := 0, len(r.cleanup)-1; i < j; i, j = i+1, j-1 {
		r.cleanup[i], r.cleanup[j] = r.cleanup[j], r.cleanup[i]
	}
	return r.end()
}

func TestExploreReportsAProgramThatStopsVirtualTime(t *testing.T) {
	result := newExploration(ExploreOptions{}, func(t testing.TB, s *Server) {
		s.standstill.limit = freeAtOnce + fewAtOnce
		s.Supervise(t, touch)
		if _, err := s.Create(someMap); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
	}).run(t, nil)
	if !strings.Contains(result.failure, "virtual time stands still") {
		t.Errorf("the run failed with %q", result.failure)
	}
}

// A program whose process was killed may go on without looking at its context. Its connections are refused.
func TestAProgramThatDialsForeverFailsTheRun(t *testing.T) {
	result := newExploration(ExploreOptions{}, func(t testing.TB, s *Server) {
		s.standstill.limit = freeAtOnce + fewAtOnce
		s.Supervise(t, func(ctx context.Context, cfg *rest.Config) error {
			for ctx.Err() == nil || s.standstill.err() == nil {
				if resp, err := (&http.Client{Transport: cfg.Transport}).Post(cfg.Host+"/api/v1/namespaces", "application/json",
					strings.NewReader(`{"metadata":{"generateName":"made-"}}`)); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				if s.Version() > 30 {
					break
				}
			}
			return nil
		})
		<-time.After(time.Second)
	}).run(t, schedule{{kind: KillBefore, write: 1}})
	if !strings.Contains(result.failure, `times connect to path "/"`) {
		t.Errorf("the run failed with %q", result.failure)
	}
}

// As client-go's reflector does: it begins a streaming list again at once until it has received all of it.
func TestE02_ACutWatchDoesNotStopVirtualTime(t *testing.T) {
	for _, kind := range endFaults {
		synctest.Test(t, func(t *testing.T) {
			s := Start(t, Options{})
			for _, name := range []string{"a", "b", "c"} {
				if _, err := s.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.Inject(Fault{Kind: kind, After: 1}); err != nil {
				t.Fatal(err)
			}
			client := &http.Client{Transport: s.transport}
			for range 2 { // it applies again at the next instant
				watches := 1
				for ; ; watches++ {
					resp, err := client.Get(memoryHost + streamed)
					if err != nil {
						t.Fatal(err)
					}
					raw, _ := io.ReadAll(resp.Body) // cut
					resp.Body.Close()
					if strings.Contains(string(raw), metav1.InitialEventsAnnotationKey) {
						break
					}
					if watches > 100 {
						t.Fatalf("%s: %d watches were cut", kind, watches)
					}
				}
				if watches != endsAtOnce+1 {
					t.Errorf("%s: the list was complete in watch %d", kind, watches)
				}
				<-time.After(time.Second)
			}
		})
	}
}

// Many objects are not a loop; one object again and again is, and so are objects of one generateName.
func TestE01_ObjectsCreatedAtOneInstantAreNoLoop(t *testing.T) {
	for name, c := range map[string]struct {
		body func(n int) string
		loop bool
	}{
		"many objects":      {func(n int) string { return fmt.Sprintf(`{"metadata":{"name":"m-%d"}}`, n) }, false},
		"one object":        {func(int) string { return `{"metadata":{"name":"m"}}` }, true},
		"of a generateName": {func(int) string { return `{"metadata":{"generateName":"m-"}}` }, true},
		"unreadable":        {func(n int) string { return fmt.Sprintf(`{"metadata":{"name":"m-%d"}`, n) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var test recorder
				s := Start(&test, Options{})
				s.standstill.limit = freeAtOnce + fewAtOnce
				client := &http.Client{Transport: s.transport}
				began := time.Now()
				for n := range 3 * s.standstill.limit {
					resp, err := client.Post(memoryHost+"/api/v1/namespaces/default/configmaps", "application/json", strings.NewReader(c.body(n)))
					if err != nil {
						t.Fatal(err)
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					if time.Now() != began {
						break
					}
				}
				if got := s.standstill.err() != nil; got != c.loop {
					t.Errorf("a loop: %t: %v", got, s.standstill.err())
				}
				if failed := reversed(&test); (len(failed) > 0) != c.loop {
					t.Errorf("the test failed with %q", failed)
				}
			})
		})
	}
}
