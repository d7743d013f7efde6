package tarn_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/wire"
)

// replica returns a pod of a template: everything except the name has the same encoding.
func replica(i int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: fmt.Sprint("web-", i),
			Labels:      map[string]string{"app": "web", "tier": "front"},
			Annotations: map[string]string{"image": "nginx", "secret": "x", "team": "shop"},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "c", Image: "nginx",
				Env:  []corev1.EnvVar{{Name: "A", Value: "a"}, {Name: "B", Value: "b"}},
				Args: []string{"serve", "all"},
			}},
			Tolerations:     []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}},
			SecurityContext: &corev1.PodSecurityContext{RunAsUser: new(int64(7))},
		},
	}
}

// annotate is the part of the transforms that writes to the metadata.
func annotate(obj metav1.Object) {
	obj.GetAnnotations()["image"] = "mirror/" + obj.GetAnnotations()["image"]
	delete(obj.GetAnnotations(), "secret")
	obj.GetLabels()["seen"] += "x"
}

func annotations(obj metav1.Object) string {
	var text []string
	for _, m := range []map[string]string{obj.GetAnnotations(), obj.GetLabels()} {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if k != "turn" {
				text = append(text, k+"="+m[k])
			}
		}
	}
	return strings.Join(text, " ")
}

func changePod(p *corev1.Pod) {
	annotate(p)
	c := &p.Spec.Containers[0]
	c.Image = "mirror/" + c.Image
	c.Env[0].Value += "+"
	c.Args = append(c.Args[:1], "less")
	p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: p.Name})
	*p.Spec.SecurityContext.RunAsUser++
}

func readPod(p *corev1.Pod) string {
	c := &p.Spec.Containers[0]
	own := p.Spec.Tolerations[len(p.Spec.Tolerations)-1].Key == p.Name
	return fmt.Sprintln(annotations(p), c.Image, c.Env, c.Args, *p.Spec.SecurityContext.RunAsUser, own)
}

// O01: a transform owns its object, in every encoding and form, from list, streaming list and
// watch: its writes appear in no other object, and it runs once.
func TestO01_ATransformOwnsItsObject(t *testing.T) {
	const meta = "image=mirror/nginx team=shop app=web seen=x tier=front"
	const typed = meta + " mirror/nginx [{A a+ nil} {B b nil}] [serve less] 8 true\n"
	pods := wire.MustOf[*corev1.Pod]()
	for _, streaming := range []reflector.Mode{reflector.StreamingOff, reflector.StreamingOn} {
		for _, form := range [][]tarn.Option{nil, {tarn.Compact()}} {
			owned(t, "protobuf", streaming, form, pods, changePod, readPod, typed)
			owned(t, "json", streaming, form, pods.Encoded(wire.JSON), changePod, readPod, typed)
			owned(t, "metadata", streaming, form, wire.Metadata(pods.Resource), func(o *metav1.PartialObjectMetadata) { annotate(o) },
				func(o *metav1.PartialObjectMetadata) string { return annotations(o) }, meta)
			owned(t, "unstructured", streaming, form, wire.Unstructured(pods.Resource), changeTree, readTree, "mirror/nginx x map[app:web seen:x tier:front]")
		}
	}
}

func changeTree(u *unstructured.Unstructured) {
	c := firstContainer(u)
	c["image"] = "mirror/" + c["image"].(string)
	labels := u.Object["metadata"].(map[string]any)["labels"].(map[string]any)
	seen, _ := labels["seen"].(string)
	labels["seen"] = seen + "x"
	delete(u.Object["metadata"].(map[string]any)["annotations"].(map[string]any), "secret")
	args := c["args"].([]any)
	args[0] = strings.TrimPrefix(fmt.Sprint(args[0], "x"), "serve")
}

func readTree(u *unstructured.Unstructured) string {
	c := firstContainer(u)
	return fmt.Sprint(c["image"], " ", c["args"].([]any)[0], " ", u.GetLabels())
}

func firstContainer(u *unstructured.Unstructured) map[string]any {
	return u.Object["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
}

// owned runs one combination: a list, changes, a relist, and subscribers that keep up, fall
// behind or subscribe late.
func owned[P tarn.Pointer[X], X any](t *testing.T, name string, streaming reflector.Mode, form []tarn.Option,
	res wire.Resource[P], change func(P), read func(P) string, want string) {
	t.Run(fmt.Sprintf("%s/streaming %v/compact %v", name, streaming, form != nil), func(t *testing.T) {
		withCluster(t, with(tarn.WithTuning(tarn.Tuning{Streaming: streaming})), func(t *testing.T, r *testCluster) {
			check := func(what string, obj P) {
				if got := read(obj); got != want {
					t.Errorf("%s: %s is %q, want %q", what, obj.GetName(), got, want)
				}
			}
			handler := func(what string) informer.Handler[P] {
				return informer.Handler[P]{
					OnAdd:    func(obj P, _ bool) { check(what+" add", obj) },
					OnUpdate: func(old, new P) { check(what+" old", old); check(what+" new", new) },
					OnDelete: func(obj P, _ bool) { check(what+" delete", obj) },
				}
			}
			for i := range 6 {
				r.create(replica(i))
			}
			h := must(tarn.MirrorTransformed(r.Cluster, res, tarn.NewTransform("change", func(obj P) (P, error) {
				change(obj)
				return obj, nil
			}), form...))
			free := make(chan struct{})
			slow := handler("slow")
			slow.OnAdd = func(obj P, _ bool) { <-free; check("slow add", obj) }
			must(h.Subscribe(handler("prompt"), informer.SubOptions[P]{}))
			must(h.Subscribe(slow, informer.SubOptions[P]{}))
			everything := func(what string, n int) {
				t.Helper()
				synctest.Wait()
				snap := h.Snapshot()
				defer snap.Release()
				if snap.Len() != n {
					t.Errorf("%s: %d objects, want %d", what, snap.Len(), n)
				}
				for obj := range snap.All() {
					check(what, obj)
				}
			}
			touch := func(names ...int) {
				t.Helper()
				for _, i := range names {
					p := replica(i)
					p.Annotations["turn"] = "2"
					must(r.srv.Update(p))
				}
			}
			r.start()
			everything("listed", 6)
			touch(1, 2)
			r.create(replica(6))
			if err := r.srv.Delete(replica(2)); err != nil {
				t.Fatal(err)
			}
			everything("watched", 6)
			r.srv.Cut("pods")
			touch(3, 4)
			r.srv.Compact(0)
			simtest.Advance(time.Minute)
			everything("listed again", 6)
			must(h.Subscribe(handler("late"), informer.SubOptions[P]{}))
			close(free)
			everything("at the end", 6)
		})
	})
}

// O01, O03: a transform deletes from maps and writes to slices while readers read the stored
// objects. The race detector reports any sharing.
func TestO03_ATransformWritesWhileReadersRead(t *testing.T) {
	srv := apiserver.Start(t, apiserver.Options{AnyNamespace: true, Seed: 1})
	c := connect(t, tarn.WithConfig(srv.MemoryConfig()))
	const replicas, turns = 10, 15
	for i := range replicas {
		must(srv.Create(replica(i)))
	}
	pods := must(tarn.MirrorTransformed(c, wire.MustOf[*corev1.Pod](), tarn.NewTransform("change", func(p *corev1.Pod) (*corev1.Pod, error) {
		changePod(p)
		return p, nil
	})))
	last := make(chan struct{})
	must(pods.Subscribe(informer.Handler[*corev1.Pod]{OnUpdate: func(_, p *corev1.Pod) {
		if p.Annotations["turn"] == fmt.Sprint(turns-1) && p.Name == fmt.Sprint("web-", replicas-1) {
			close(last)
		}
	}}, informer.SubOptions[*corev1.Pod]{}))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	if err := c.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		defer close(read)
		for {
			snap := pods.Snapshot()
			for p := range snap.All() {
				if got := readPod(p); !strings.HasPrefix(got, "image=mirror/nginx team") {
					read <- got
					return
				}
			}
			snap.Release()
			select {
			case <-last:
				return
			default:
			}
		}
	}()
	for turn := range turns {
		for i := range replicas {
			p := replica(i)
			p.Annotations["turn"] = fmt.Sprint(turn)
			must(srv.Update(p))
		}
	}
	if got, ok := <-read; ok {
		t.Error(got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
