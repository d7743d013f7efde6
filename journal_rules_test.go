package tarn_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/journal"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// podsOf declares a mirror of pods.
func (r *testCluster) podsOf(opts ...tarn.Option) func() *tarn.Mirror[*corev1.Pod] {
	return func() *tarn.Mirror[*corev1.Pod] { return must(tarn.MirrorOf[*corev1.Pod](r.Cluster, opts...)) }
}

// What is not the same is listed, and the status says what differs.
func TestJ02_AnotherMirrorIsListedWithTheReason(t *testing.T) {
	withCluster(t, nil, func(t *testing.T, r *testCluster) {
		r.create(pod("shop", "web", "node"))
		dir := t.TempDir()
		transformed := func(version string) func() *tarn.Mirror[*corev1.Pod] {
			return func() *tarn.Mirror[*corev1.Pod] {
				same := tarn.NewTransform("same", func(p *corev1.Pod) (*corev1.Pod, error) { return p, nil }).Versioned(version)
				return must(tarn.MirrorTransformed(r.Cluster, wire.MustOf[*corev1.Pod](), same))
			}
		}
		for _, c := range []struct {
			name    string
			declare func() *tarn.Mirror[*corev1.Pod]
			want    string
		}{
			{"first", r.podsOf(), "there is no state of this mirror yet"},
			{"same", r.podsOf(), ""},
			{"fields", r.podsOf(tarn.KeepManagedFields()), "the state has another set of dropped fields"},
			{"transform", transformed("v1"), "the state has another set of dropped fields"},
			{"same transform", transformed("v1"), ""},
			{"new transform", transformed("v2"), `the state has another transform: "same v1", the mirror "same v2"`},
			{"no version", transformed(""), "the transform has no version"},
			{"after that", r.podsOf(), "there is no state of this mirror yet"}, // what must not be written was deleted
			{"selector", r.podsOf(tarn.Matching("app")), "there is no state of this mirror yet"},
			{"same again", r.podsOf(), ""},
		} {
			r.life(dir, c.declare, func(pods *tarn.Mirror[*corev1.Pod]) {
				<-time.After(time.Minute)
				is := pods.Status().Journal
				if text := fmt.Sprint(is.Refused); c.want == "" && (is.Refused != nil || is.Resumed != 1) || !strings.Contains(text, c.want) && c.want != "" {
					t.Errorf("%s: %q, %d continued, want %q", c.name, text, is.Resumed, c.want)
				}
				if pods.Len() != 1 {
					t.Errorf("%s: %d pods", c.name, pods.Len())
				}
			})
		}
		// Another cluster under the same address.
		other := apiserver.Start(t, apiserver.Options{AnyNamespace: true, Seed: 2})
		r.srv = other
		r.life(dir, r.podsOf(), func(pods *tarn.Mirror[*corev1.Pod]) {
			if is := pods.Status().Journal; is.Resumed != 0 || !strings.Contains(fmt.Sprint(is.Refused), "another cluster") || pods.Len() != 0 {
				t.Errorf("in another cluster: %v, %d pods", is.Resumption, pods.Len())
			}
		})
	})
}

// A server that has nothing new proves the state by its version, one that has by an event or a bookmark, and one without
// bookmarks by the metadata.
func TestJ03_AStateIsProvenByTheServer(t *testing.T) {
	for name, opts := range map[string]apiserver.Options{"bookmarks": {}, "no bookmarks": {NoBookmarks: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts.AnyNamespace, opts.Seed = true, 1
				r := &testCluster{t: t, srv: apiserver.Start(t, opts)}
				r.create(pod("shop", "web", "node"), pod("shop", "api", "node"))
				dir := t.TempDir()
				r.life(dir, r.podsOf(), func(*tarn.Mirror[*corev1.Pod]) {})
				continues := func(what string, after time.Duration, pods int) {
					t.Helper()
					r.life(dir, r.podsOf(), func(m *tarn.Mirror[*corev1.Pod]) {
						began := time.Now()
						if err := m.WaitSynced(t.Context()); err != nil {
							t.Fatal(err)
						}
						is := m.Status().Journal
						if time.Since(began) != after || is.Resumed != 1 || is.Refused != nil || m.Len() != pods {
							t.Errorf("%s: %v after %v, %d pods", what, is.Resumption, time.Since(began), m.Len())
						}
						if result, err := m.Audit(t.Context()); err != nil || result.Count() > 0 {
							t.Errorf("%s: audit: %v, %v", what, result, err)
						}
					})
				}
				continues("nothing has changed", 0, 2)
				must(r.srv.Create(pod("shop", "new", "node")))
				continues("an event", 0, 3)
				must(r.srv.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}))
				if opts.NoBookmarks {
					continues("the metadata", 6*time.Second, 3) // after two watches
				} else {
					continues("a bookmark", time.Second, 3)
				}
			})
		})
	}
}

// After the server has dropped the history there is one list, and only what changed is decoded.
func TestJ04_UnchangedObjectsAreNotDecodedAgain(t *testing.T) {
	withCluster(t, nil, func(t *testing.T, r *testCluster) {
		for i := range 100 {
			r.create(pod("shop", fmt.Sprint("web-", i), "node"))
		}
		decoded := new(atomic.Int64)
		declare := func() *tarn.Mirror[*corev1.Pod] {
			count := tarn.NewTransform("count", func(p *corev1.Pod) (*corev1.Pod, error) { decoded.Add(1); return p, nil }).Versioned("v1")
			return must(tarn.MirrorTransformed(r.Cluster, wire.MustOf[*corev1.Pod](), count, tarn.Compact()))
		}
		dir := t.TempDir()
		r.life(dir, declare, func(*tarn.Mirror[*corev1.Pod]) {})
		must(r.srv.Create(pod("shop", "new", "node")))
		must(r.srv.Create(pod("shop", "newer", "node")))
		r.srv.Compact(1)
		decoded.Store(0)
		r.life(dir, declare, func(pods *tarn.Mirror[*corev1.Pod]) {
			if err := pods.WaitSynced(t.Context()); err != nil {
				t.Fatal(err)
			}
			is := pods.Status()
			if decoded.Load() != 2 || pods.Len() != 102 || is.Journal.Resumed != 0 || !strings.Contains(fmt.Sprint(is.Journal.Refused), "does not have the changes") {
				t.Errorf("%d objects were decoded, of %d: %v", decoded.Load(), pods.Len(), is.Journal.Resumption)
			}
			if n := is.Informer.Sources[0].Reflector.Counts.Lists; n != 1 {
				t.Errorf("%d lists", n)
			}
			if result, err := pods.Audit(t.Context()); err != nil || result.Count() > 0 {
				t.Errorf("audit: %v, %v", result, err)
			}
		})
	})
}

// Secrets, masked and dropped fields are not in the folder, nor is what was written before they were masked.
func TestJ06_SecretsMaskedAndDroppedFieldsAreNotWritten(t *testing.T) {
	for _, compact := range [][]tarn.Option{nil, {tarn.Compact()}} {
		withCluster(t, nil, func(t *testing.T, r *testCluster) {
			const hidden = "what-is-hidden"
			r.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "key"}, Data: map[string][]byte{"key": []byte(hidden)}})
			noted := pod("shop", "web", "node")
			noted.Annotations = map[string]string{"note": hidden}
			r.create(noted)
			dir := t.TempDir()
			has := func() (found bool) {
				_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
					if data, err := os.ReadFile(path); err == nil {
						found = found || bytes.Contains(data, []byte(hidden))
					}
					return err
				})
				return found
			}
			note := object.FieldPath{"metadata", "annotations"}
			run := func(want string, opts journal.Options, scope ...tarn.Option) {
				t.Helper()
				r.Cluster = connect(t, tarn.WithConfig(r.srv.MemoryConfig()), tarn.WithJournal(dir, opts), tarn.WithLogger(slog.New(slog.DiscardHandler)))
				secrets := must(tarn.MirrorOf[*corev1.Secret](r.Cluster, compact...))
				must(tarn.MirrorOf[*corev1.Pod](r.Cluster, append(scope, compact...)...))
				r.start()
				<-time.After(time.Second)
				if is := secrets.Status().Journal; is.Writing != opts.Secrets || !opts.Secrets && !strings.Contains(fmt.Sprint(is.Cause), "Secrets are not written") {
					t.Errorf("the mirror of Secrets: %+v", is)
				}
				if err := r.stop(); err != nil {
					t.Fatal(err)
				}
				if is := fmt.Sprint(has()); is != want {
					t.Errorf("the folder has what is hidden: %s, want %s", is, want)
				}
			}
			run("false", journal.Options{}, tarn.Drop(note))
			run("true", journal.Options{})
			run("false", journal.Options{}, tarn.Mask(note))
			run("true", journal.Options{Secrets: true}, tarn.Mask(note))
		})
	}
}

// A second process on a folder, and one that cannot write to it, mirror without writing, and say so.
func TestJ05_AProcessThatCannotWriteMirrorsAndSaysSo(t *testing.T) {
	withCluster(t, nil, func(t *testing.T, r *testCluster) {
		r.create(pod("shop", "web", "node"))
		dir := t.TempDir()
		r.life(dir, r.podsOf(), func(first *tarn.Mirror[*corev1.Pod]) {
			second := &testCluster{t: t, srv: r.srv}
			second.life(dir, second.podsOf(), func(pods *tarn.Mirror[*corev1.Pod]) {
				if is := pods.Status().Journal; is.Writing || !strings.Contains(fmt.Sprint(is.Cause), "another process") || pods.Len() != 1 {
					t.Errorf("a second process: %+v", is)
				}
			})
			if is := first.Status().Journal; !is.Writing {
				t.Errorf("the first process: %+v", is)
			}
		})
		file := filepath.Join(dir, "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		r.life(file, r.podsOf(), func(pods *tarn.Mirror[*corev1.Pod]) { // a folder that cannot be made
			if is := pods.Status().Journal; is.Writing || is.Cause == nil || pods.Len() != 1 {
				t.Errorf("without a folder: %+v", is)
			}
		})
	})
}

// A backup was restored while the program did not run: the server is before the version of the state, or has passed it.
func TestJ08_ARestoredBackupIsListed(t *testing.T) {
	for _, later := range []int{0, 1, 3, 10} {
		withCluster(t, nil, func(t *testing.T, r *testCluster) {
			for i := range 10 {
				r.create(pod("shop", fmt.Sprint("web-", i), "node"))
			}
			dir := t.TempDir()
			r.life(dir, r.podsOf(), func(*tarn.Mirror[*corev1.Pod]) {})
			r.srv.Rewind(3)
			for i := range later {
				r.create(pod("shop", fmt.Sprint("other-", i), "node"))
			}
			for range 2 { // the second time there is a state of the present history
				r.life(dir, r.podsOf(), func(pods *tarn.Mirror[*corev1.Pod]) {
					if result, err := pods.Audit(t.Context()); err != nil || result.Count() > 0 || pods.Len() != 7+later {
						t.Errorf("%d later changes: %v, %d pods, audit %v, %v", later, pods.Status().Journal.Resumption, pods.Len(), result.Differences, err)
					}
					<-time.After(time.Minute)
				})
			}
		})
	}
}
