package tarn_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/journal"
	"github.com/tarnproject/tarn/object"
)

// incident writes a recording of pods and deployments whose changes arrive out of the order of their versions, and
// returns the changes after all states, by version.
func incident(t *testing.T, path string, seed uint64) (changes []string) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 3))
	rec := must(journal.NewRecording(path))
	mirrors := []*journal.Recorded{
		{Identity: journal.Identity{Resource: "v1/pods"}, Kind: "Pod", Namespaced: true},
		{Identity: journal.Identity{Resource: "apps/v1/deployments"}, Kind: "Deployment", Namespaced: true},
	}
	version, uids := 48_000_000, 0
	has := []map[string]int{{}, {}} // the UID of each
	change := func(of int) journal.Entry {
		version += 10
		name := fmt.Sprintf("%s-%d", []string{"pod", "web"}[of], random.IntN(6))
		e := journal.Entry{Kind: object.Updated, Key: object.Key{Namespace: "shop", Name: name}, Version: object.Version(fmt.Sprint(version))}
		switch uid := has[of][name]; {
		case uid == 0:
			uids++
			has[of][name], e.Kind = uids, object.Added
		case random.IntN(4) == 0:
			delete(has[of], name)
			e.Kind, e.UID = object.Deleted, object.UID(fmt.Sprint(uid))
			return e
		}
		e.UID = object.UID(fmt.Sprint(has[of][name]))
		e.Data = fmt.Appendf(nil, `{"metadata":{"namespace":"shop","name":%q,"uid":%q,"resourceVersion":"%d","labels":{"app":"web-%d"},"generation":%d}}`,
			name, e.UID, version, random.IntN(6), version)
		return e
	}
	at := time.Date(2026, 10, 25, 2, 13, 0, 0, time.UTC)
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for of, m := range mirrors {
		check(rec.Objects(m, []journal.Entry{change(of)}))
		check(rec.Complete(m, at))
		check(rec.Changes(mirrors[0], at, []journal.Entry{change(0)})) // also between the two states
		at = at.Add(time.Second)
	}
	type late struct {
		at time.Time
		of int
		e  journal.Entry
	}
	var all []late
	for range 80 {
		of := random.IntN(2)
		e := change(of)
		changes = append(changes, fmt.Sprint(e.Kind, " ", e.Key.Name, " ", e.Version))
		at = at.Add(time.Duration(random.IntN(3)) * 200 * time.Millisecond)
		// Deployments arrive up to a second later.
		all = append(all, late{at.Add(time.Duration(of*random.IntN(1000)) * time.Millisecond), of, e})
	}
	latest := all[0].at // of deployments: those of one mirror arrive in order
	for i := range all {
		if all[i].of == 1 {
			if all[i].at.Before(latest) {
				all[i].at = latest
			}
			latest = all[i].at
		}
	}
	slices.SortStableFunc(all, func(a, b late) int { return a.at.Compare(b.at) })
	for i, l := range all {
		if i%20 == 0 {
			check(rec.Did(journal.Activity{At: l.at, Controller: "web", Verb: "reconcile", Key: l.e.Key, Outcome: "conflict"}))
		}
		check(rec.Changes(mirrors[l.of], l.at, []journal.Entry{l.e}))
	}
	check(rec.Close())
	return changes
}

// replayed runs a controller against a recording, and returns what its handlers and its reconcile function received, when,
// and what the replay showed.
func replayed(t *testing.T, path string) (calls []call, shown []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var mu sync.Mutex // guards calls
		note := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, call{time.Since(began), fmt.Sprintf(format, args...)})
		}
		server := apiserver.Replay(t, path, apiserver.ReplayOptions{Shown: func(ev apiserver.ReplayEvent) {
			text := fmt.Sprint(ev.At.UTC().Format("05.000"), " ", ev.Client, " ", ev.What, " ", ev.Key.Name, " ", ev.Result)
			if ev.Activity != nil {
				text += ev.Activity.Outcome
			}
			shown = append(shown, text)
		}})
		cluster := must(tarn.Connect(tarn.WithConfig(server.Config())))
		pods, deploys := must(tarn.MirrorOf[*corev1.Pod](cluster)), must(tarn.MirrorOf[*appsv1.Deployment](cluster))
		maps := must(tarn.MirrorOf[*corev1.ConfigMap](cluster))
		must(pods.SubscribeBatch(func(_ context.Context, events []tarn.Event[*corev1.Pod]) {
			for _, ev := range events {
				note("pods: %v %s %s %t", ev.Kind, ev.Key.Name, ev.New().ResourceVersion, ev.Initial)
			}
		}, tarn.SubOptions[*corev1.Pod]{}))
		must(deploys.SubscribeBatch(func(_ context.Context, events []tarn.Event[*appsv1.Deployment]) {
			for _, ev := range events {
				note("deployments: %v %s %s %t", ev.Kind, ev.Key.Name, ev.New().ResourceVersion, ev.Initial)
			}
		}, tarn.SubOptions[*appsv1.Deployment]{}))
		reconcile := func(ctx context.Context, key tarn.Key) (tarn.Result, error) {
			d, err := deploys.Client().Get(ctx, key)
			if err != nil {
				note("reconcile %s: %v", key.Name, err)
				return tarn.Result{}, tarn.IgnoreNotFound(err)
			}
			count := 0
			pods.View(func(now tarn.Snapshot[*corev1.Pod]) {
				for p := range now.All() {
					if p.Labels["app"] == key.Name {
						count++
					}
				}
			})
			note("reconcile %s at %s with %d pods", key.Name, d.ResourceVersion, count)
			_, _, err = maps.Client().CreateOrUpdate(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}, func(m *corev1.ConfigMap) error {
				m.Data = map[string]string{"pods": fmt.Sprint(count), "generation": fmt.Sprint(d.Generation)}
				return nil
			})
			return tarn.Result{}, err
		}
		must(tarn.NewController(cluster, "web", reconcile, tarn.For(deploys), tarn.Watches(pods, func(p *corev1.Pod) []tarn.Key {
			return []tarn.Key{{Namespace: p.Namespace, Name: p.Labels["app"]}}
		})))
		ctx, end := run(cluster)
		defer end()
		if err := cluster.WaitSynced(ctx); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		began, calls, shown = time.Now(), nil, nil // the order of the first lists is not that of a recording
		if err := server.Play(ctx); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		synctest.Wait()
	})
	// Goroutines may be in any order at one instant. Each recorded change has one of its own.
	slices.SortStableFunc(calls, func(a, b call) int { return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.text, b.text)) })
	slices.Sort(shown)
	return calls, shown
}

// call is a call of a handler or a reconcile function.
type call struct {
	at   time.Duration
	text string
}

// J07: the same file gives the same events in the same order, every time, with the recorded versions.
func TestJ07_ARecordingReplaysToTheSameEvents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "incident.tarn")
	changes := incident(t, path, 1)
	calls, shown := replayed(t, path)
	var got []string
	for _, c := range calls {
		if fields := strings.Fields(c.text); strings.HasSuffix(fields[0], ":") && fields[len(fields)-1] == "false" {
			got = append(got, strings.Join(fields[1:4], " "))
		}
	}
	if !slices.Equal(got, changes) {
		t.Fatalf("handlers received\n%s\nof the changes\n%s", strings.Join(got, "\n"), strings.Join(changes, "\n"))
	}
	text := strings.Join(shown, "\n")
	if strings.Count(text, " false ") != len(changes)+4 || strings.Count(text, "conflict") != 4 || !strings.Contains(text, " true create ") || !strings.Contains(text, " true update web-") {
		t.Errorf("shown:\n%s", text)
	}
	for n := range 100 {
		againCalls, againShown := replayed(t, path)
		if !slices.Equal(againCalls, calls) || !slices.Equal(againShown, shown) {
			t.Fatalf("replay %d:\n%v\n%s\nthe first:\n%v\n%s", n+2, againCalls, strings.Join(againShown, "\n"), calls, text)
		}
	}
}
