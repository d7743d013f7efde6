package informer_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// O01: a transform may write to every part of its object, though equal parts of decoded
// objects are shared where there is no transform.
func TestO01_ATransformWritesToNoOtherObject(t *testing.T) {
	simtest.Each(t, func(t *testing.T, via simtest.Via) {
		template := func(p *corev1.Pod) {
			p.Labels = map[string]string{"app": "web"}
			p.Spec.Containers = []corev1.Container{{Name: "main", Image: "web", Env: []corev1.EnvVar{{Name: "A", Value: "b"}}}}
		}
		srv := simtest.Pods()
		for _, key := range []string{"shop/a", "shop/b", "shop/c"} {
			srv.Set(key, template)
		}
		inf := newInformer(t, srv.Source(via), podOptions{OnMutation: mustNotMutate(t), Transform: func(p *corev1.Pod) (*corev1.Pod, error) {
			p.Labels["app"] += "+" + p.Name
			p.Spec.Containers[0].Image += "+" + p.Name
			p.Spec.Containers[0].Env[0].Value += "+" + p.Name
			return p, nil
		}})
		start(t, inf)
		synctest.Wait()
		srv.Set("shop/b", onNode("n1"))
		srv.Set("shop/d", template)
		synctest.Wait()
		for _, name := range []string{"a", "b", "c", "d"} {
			p, ok := inf.Get(object.RawKey("shop/" + name))
			if !ok || p.Labels["app"] != "web+"+name || p.Spec.Containers[0].Image != "web+"+name || p.Spec.Containers[0].Env[0].Value != "b+"+name {
				t.Errorf("%s: %+v", name, p)
			}
		}
	})
}

// O04: whatever a transform makes of one object, that object goes to quarantine and the
// informer goes on, by list and by watch.
func TestO04_AFailedTransformQuarantinesItsObject(t *testing.T) {
	for cause, transform := range map[string]func(*corev1.Pod) (*corev1.Pod, error){
		"returned no object":       func(*corev1.Pod) (*corev1.Pod, error) { return nil, nil },
		"changed the key":          func(p *corev1.Pod) (*corev1.Pod, error) { p.Name += "-renamed"; return p, nil },
		"changed the UID":          func(p *corev1.Pod) (*corev1.Pod, error) { p.UID = "other"; return p, nil },
		"changed the version":      func(p *corev1.Pod) (*corev1.Pod, error) { p.ResourceVersion = ""; return p, nil },
		`the key from "shop/b" to`: func(*corev1.Pod) (*corev1.Pod, error) { return &corev1.Pod{}, nil },
		"thrown":                   func(*corev1.Pod) (*corev1.Pod, error) { panic("thrown") },
		"an error":                 func(p *corev1.Pod) (*corev1.Pod, error) { return p, errors.New("an error") },
	} {
		for name, form := range map[string]*store.Form[*corev1.Pod]{"decoded": nil, "packed": packed()} {
			t.Run(cause+"/"+name, func(t *testing.T) {
				simtest.Each(t, func(t *testing.T, via simtest.Via) {
					srv := simtest.Pods("shop/a", "shop/b", "shop/c")
					inf := newInformer(t, srv.Source(via), podOptions{Form: form, Transform: func(p *corev1.Pod) (*corev1.Pod, error) {
						if p.Name == "b" {
							return transform(p)
						}
						return p, nil
					}})
					var d simtest.Recorder
					subscribe(t, inf, d.PodHandler(), podSub{})
					start(t, inf)
					quarantined := func(count int) {
						t.Helper()
						synctest.Wait()
						q := inf.Status().Quarantine
						if len(q) != 1 || q[0].Key != object.RawKey("shop/b") || q[0].Count != count || !strings.Contains(q[0].Cause.Error(), cause) {
							t.Errorf("quarantine: %+v", q)
						}
					}
					quarantined(1)
					simtest.Want(t, "received", d.Take(), []string{"add! shop/a@101", "add! shop/c@103"})
					srv.Set("shop/b")
					srv.Set("shop/c")
					quarantined(2)
					simtest.Want(t, "received", d.Take(), []string{"update shop/c@103>105"})
					srv.Delete("shop/b")
					srv.Set("shop/a")
					synctest.Wait()
					simtest.Want(t, "received", d.Take(), []string{"update shop/a@101>107"})
					if st := inf.Status(); len(st.Quarantine) != 0 || !st.Live() {
						t.Errorf("%+v", st)
					}
				})
			})
		}
	}
}

// O04: no function of the user's that fails on one object ends the informer, nor hides the
// others.
func TestO04_NoObjectEndsAnInformer(t *testing.T) {
	bad := func(p *corev1.Pod) {
		if p.Name == "b" {
			panic("thrown")
		}
	}
	acc := object.Meta[*corev1.Pod]()
	for what, set := range map[string]func(*object.Accessor[*corev1.Pod], *podOptions, *podSub){
		"key": func(a *object.Accessor[*corev1.Pod], _ *podOptions, _ *podSub) {
			a.Key = func(p *corev1.Pod) (object.Key, error) { bad(p); return acc.Key(p) }
		},
		"uid": func(a *object.Accessor[*corev1.Pod], _ *podOptions, _ *podSub) {
			a.UID = func(p *corev1.Pod) object.UID { bad(p); return acc.UID(p) }
		},
		"version": func(a *object.Accessor[*corev1.Pod], _ *podOptions, _ *podSub) {
			a.Version = func(p *corev1.Pod) object.Version { bad(p); return acc.Version(p) }
		},
		"labels": func(a *object.Accessor[*corev1.Pod], o *podOptions, _ *podSub) {
			a.Labels = func(p *corev1.Pod) map[string]string { bad(p); return acc.Labels(p) }
			o.Indexes = []store.AnyIndex[*corev1.Pod]{store.NewLabelIndex(a.Labels)}
		},
		"index": func(_ *object.Accessor[*corev1.Pod], o *podOptions, _ *podSub) {
			o.Indexes = []store.AnyIndex[*corev1.Pod]{store.NewIndex("x", func(p *corev1.Pod) string { bad(p); return p.Name })}
		},
		"form": func(_ *object.Accessor[*corev1.Pod], o *podOptions, _ *podSub) {
			o.Form = store.Packed(func(p *corev1.Pod) ([]byte, error) { bad(p); return p.Marshal() }, decodePod)
		},
		"copy": func(_ *object.Accessor[*corev1.Pod], o *podOptions, _ *podSub) {
			o.OnMutation = func(store.Mutation) {}
			o.Copy = func(p *corev1.Pod) *corev1.Pod { bad(p); return p.DeepCopy() }
		},
		"filter": func(_ *object.Accessor[*corev1.Pod], o *podOptions, s *podSub) {
			o.OnPanic = func(*informer.PanicError) {}
			s.Filter = func(p *corev1.Pod) bool { bad(p); return true }
		},
	} {
		t.Run(what, func(t *testing.T) {
			simtest.Each(t, func(t *testing.T, via simtest.Via) {
				srv := simtest.Pods("shop/a", "shop/b")
				a, opts, sub := acc, podOptions{}, podSub{}
				set(&a, &opts, &sub)
				inf, err := informer.New(srv.Source(via), a, opts)
				if err != nil {
					t.Fatal(err)
				}
				seen := map[string]string{}
				subscribe(t, inf, podHandler{
					OnAdd:    func(p *corev1.Pod, _ bool) { seen[p.Name] = p.ResourceVersion },
					OnUpdate: func(_, p *corev1.Pod) { seen[p.Name] = p.ResourceVersion },
					OnDelete: func(p *corev1.Pod, _ bool) { delete(seen, p.Name) },
				}, sub)
				start(t, inf)
				synctest.Wait()
				srv.Set("shop/b")
				srv.Set("shop/a") // 104
				simtest.Advance(time.Minute)
				srv.Delete("shop/b")
				srv.Set("shop/c") // 106
				simtest.Advance(time.Minute)
				if seen["a"] != "104" || seen["c"] != "106" || seen["b"] != "" || !inf.Status().Live() {
					t.Errorf("%v; %v", seen, inf.Status())
				}
			})
		})
	}
}
