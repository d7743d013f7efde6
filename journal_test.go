package tarn_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
)

// life runs a program with a journal until the function returns.
func (r *testCluster) life(dir string, declare func() *tarn.Mirror[*corev1.Pod], f func(pods *tarn.Mirror[*corev1.Pod])) {
	r.t.Helper()
	r.Cluster = connect(r.t, tarn.WithConfig(r.srv.MemoryConfig()), tarn.WithJournal(dir), tarn.WithLogger(slog.New(slog.DiscardHandler)))
	pods := declare()
	r.start()
	f(pods)
	if err := r.stop(); err != nil {
		r.t.Fatal(err)
	}
}

// handled is what a handler was called for.
type handled struct {
	t       *testing.T
	synced  bool
	has     map[tarn.Key]string
	changes int
}

func (r *handled) handler() tarn.Handler[*corev1.Pod] {
	at := func(p *corev1.Pod) (tarn.Key, string) {
		return key(p.Namespace, p.Name), string(p.UID) + p.ResourceVersion
	}
	return tarn.Handler[*corev1.Pod]{
		OnAdd: func(p *corev1.Pod, initial bool) {
			k, v := at(p)
			if _, again := r.has[k]; again || initial == r.synced {
				r.t.Errorf("an addition of %v: again %v, initial %v, after the initial state %v", k, again, initial, r.synced)
			}
			r.has[k] = v
			r.changes++
		},
		OnUpdate: func(old, p *corev1.Pod) {
			_, was := at(old)
			k, v := at(p)
			if r.has[k] != was {
				r.t.Errorf("an update of %v from %q, which was %q", k, was, r.has[k])
			}
			r.has[k] = v
			r.changes++
		},
		OnDelete: func(p *corev1.Pod, _ bool) {
			k, _ := at(p)
			if _, known := r.has[k]; !known {
				r.t.Errorf("a deletion of %v, which is not known", k)
			}
			delete(r.has, k)
			r.changes++
		},
	}
}

// damage does to the newest segment what a crash at any byte or a bad disk may do.
func damage(t *testing.T, dir string, random *rand.Rand) {
	t.Helper()
	paths := must(filepath.Glob(filepath.Join(dir, "*", "*.segment")))
	if len(paths) == 0 {
		return
	}
	path := paths[len(paths)-1]
	data := must(os.ReadFile(path))
	switch random.IntN(4) {
	case 0, 1:
		data = data[:random.IntN(len(data)+1)]
	case 2:
		if len(data) > 0 {
			data[random.IntN(len(data))] ^= 1 << random.IntN(8)
		}
	default:
		return
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A program is killed at any byte, again and again, while objects change, watches are cut, history is compacted and
// backups are restored. Each time the mirror that follows has what the server has, and its subscribers receive what they
// would have received after a list.
func TestJ03_J04_J08_AMirrorThatContinuesEqualsTheServer(t *testing.T) {
	continued, refused := 0, map[string]int{}
	for seed := range soak.Rounds(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(seed), 1))
			withCluster(t, nil, func(t *testing.T, r *testCluster) {
				root, shard := t.TempDir(), tarn.NewShard(object.Part(object.ByUID, 1, 2))
				scopes := [][]tarn.Option{nil, {tarn.InNamespaces("a", "b")}, {tarn.Matching("app")}, {tarn.InShard(shard)}}
				scope := random.IntN(len(scopes))
				opts := scopes[scope]
				if random.IntN(2) == 0 {
					opts = append(opts, tarn.Compact())
				}
				var pods *tarn.Mirror[*corev1.Pod]
				var got *handled
				declare := func() *tarn.Mirror[*corev1.Pod] {
					pods = must(tarn.MirrorOf[*corev1.Pod](r.Cluster, opts...))
					got = &handled{t: t, has: map[tarn.Key]string{}}
					of := got
					must(pods.Subscribe(got.handler(), tarn.SubOptions[*corev1.Pod]{OnSynced: func() { of.synced = true }}))
					return pods
				}
				dir, rewound := filepath.Join(root, "0"), false
				for i := range 30 { // so that no backup lacks kube-system
					must(r.srv.Create(pod("c", fmt.Sprint("early-", i), "node")))
				}
				for life := range 5 {
					if random.IntN(3) == 0 && !rewound {
						r.srv.Random(uint64(seed), 0.2)
					}
					r.life(dir, declare, func(pods *tarn.Mirror[*corev1.Pod]) {
						if rewound { // before the server passes the version of the state; see docs/journal.md
							if err := pods.WaitSynced(t.Context()); err != nil {
								t.Fatal(err)
							}
						}
						ctx, stop := context.WithCancel(t.Context())
						done, changes := make(chan struct{}), rand.New(rand.NewPCG(uint64(seed), uint64(200+life)))
						go func() {
							defer close(done)
							churn(ctx, r.srv, changes)
						}()
						<-time.After(time.Duration(1+random.IntN(3000)) * time.Millisecond)
						stop()
						<-done
						r.srv.Clear()
						if random.IntN(6) == 0 {
							r.srv.Rewind(random.IntN(10))
							pods.Informer().Relist(errors.New("a backup was restored")) // a watch may not show it
						}
						if err := pods.WaitSynced(t.Context()); err != nil {
							t.Fatal(err)
						}
						<-time.After(time.Minute)
						if result, err := pods.Audit(t.Context()); err != nil && !apierrors.IsResourceExpired(err) || result.Count() != 0 {
							t.Errorf("life %d, %v: audit: %v, %v", life, pods.Status().Journal.Resumption, result.Differences, err)
						}
						synctest.Wait()
						has := map[tarn.Key]string{}
						for p := range pods.Snapshot().All() {
							has[key(p.Namespace, p.Name)] = string(p.UID) + p.ResourceVersion
						}
						if !maps.Equal(got.has, has) || !got.synced {
							t.Errorf("life %d: the subscriber has %d objects, the mirror %d", life, len(got.has), len(has))
						}
						if j := pods.Status().Journal; !j.Writing {
							t.Errorf("life %d: the journal does not write: %v", life, j.Cause)
						}
						continued += pods.Status().Journal.Resumed
						if err := pods.Status().Journal.Refused; err != nil {
							refused[err.Error()]++
						}
						// The folder as it is at some moment of the life, whose process is killed then.
						next := filepath.Join(root, fmt.Sprint(life+1))
						if random.IntN(2) == 0 {
							ctx, stop := context.WithTimeout(t.Context(), time.Duration(random.IntN(500))*time.Millisecond)
							defer stop()
							churn(ctx, r.srv, rand.New(rand.NewPCG(uint64(seed), uint64(life))))
						}
						if err := os.CopyFS(next, os.DirFS(dir)); err != nil {
							t.Fatal(err)
						}
						dir = next
					})
					damage(t, dir, random)
					rewound = false
					switch random.IntN(4) {
					case 0:
						r.srv.Compact(random.IntN(20))
					case 1:
						r.srv.Rewind(random.IntN(10))
						rewound = true
						continue
					}
					ctx, stop := context.WithTimeout(t.Context(), time.Duration(random.IntN(300))*time.Millisecond)
					churn(ctx, r.srv, rand.New(rand.NewPCG(uint64(seed), uint64(100+life))))
					stop()
				}
			})
		})
	}
	t.Logf("%d scopes continued; lists: %v", continued, refused)
	if continued < soak.Rounds(10)/2 || len(refused) < 2 {
		t.Errorf("%d scopes continued, and these lists are too few: %v", continued, refused)
	}
}
