package informers_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	theirs "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/clientgo/factory/informers"
)

func pod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}}}
}

// names are what a factory's lister of pods has.
func names(t *testing.T, f informers.SharedInformerFactory) string {
	t.Helper()
	pods, err := f.Core().V1().Pods().Lister().List(labels.Everything())
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, p := range pods {
		all = append(all, p.Namespace+"/"+p.Name)
	}
	return strings.Join(all, " ")
}

func TestEveryResourceOfClientGosFactoryIsOneOfOurs(t *testing.T) {
	clients := fake.NewClientset()
	reference, ours := theirs.NewSharedInformerFactory(clients, 0), informers.NewSharedInformerFactory(clients, 0)
	informer, err := ours.ForResource(corev1.SchemeGroupVersion.WithResource("pods"))
	if err != nil {
		t.Fatal(err)
	}
	want := reflect.TypeOf(informer.Informer())
	known := 0
	for gvk := range scheme.Scheme.AllKnownTypes() {
		for _, plural := range []string{"s", "es", ""} {
			gvr := gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + plural)
			if strings.HasSuffix(gvk.Kind, "y") && plural == "es" {
				gvr.Resource = strings.ToLower(strings.TrimSuffix(gvk.Kind, "y")) + "ies"
			}
			if _, err := reference.ForResource(gvr); err != nil {
				continue
			}
			known++
			informer, err := ours.ForResource(gvr)
			if err != nil {
				t.Errorf("%v: %v", gvr, err)
			} else if got := reflect.TypeOf(informer.Informer()); got != want {
				t.Errorf("%v: the informer is a %v, want %v", gvr, got, want)
			}
		}
	}
	if known < 100 {
		t.Errorf("only %d resources were tried", known)
	}
	if _, err := ours.ForResource(corev1.SchemeGroupVersion.WithResource("none")); err == nil {
		t.Error("there is an informer for what does not exist")
	}
}

func TestAFactoryOverAFakeClientsetMirrorsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients := fake.NewClientset(pod("shop", "web"), pod("other", "db"))
		f := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithNamespace("shop"))
		f.Core().V1().Pods().Informer()
		ctx, cancel := context.WithCancel(t.Context())
		f.StartWithContext(ctx)
		if err := f.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
			t.Fatal(err)
		}
		if got := names(t, f); got != "shop/web" {
			t.Errorf("the mirror has %s", got)
		}
		cancel()
		f.Shutdown()
	})
}

func TestByTheWireOptionsHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.Start(t, apiserver.Options{})
		for _, p := range []*corev1.Pod{pod("default", "web"), pod("default", "db"), pod("kube-system", "web")} {
			if _, err := server.Create(p); err != nil {
				t.Fatal(err)
			}
		}
		f, err := informers.NewSharedInformerFactoryForConfig(server.Config(), 0,
			informers.WithNamespace("default"),
			informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = "app=web" }),
			informers.WithTransform(func(obj any) (any, error) {
				if p, ok := obj.(*corev1.Pod); ok {
					p.Annotations = map[string]string{"transformed": "yes"}
				}
				return obj, nil
			}))
		if err != nil {
			t.Fatal(err)
		}
		f.Core().V1().Pods().Informer()
		ctx, cancel := context.WithCancel(t.Context())
		f.Start(ctx.Done())
		for kind, synced := range f.WaitForCacheSync(ctx.Done()) {
			if !synced {
				t.Errorf("%v is not synced", kind)
			}
		}
		if got := names(t, f); got != "default/web" {
			t.Errorf("the mirror has %s", got)
		}
		p, err := f.Core().V1().Pods().Lister().Pods("default").Get("web")
		if err != nil || p.Annotations["transformed"] != "yes" {
			t.Errorf("Get = %v, %v", p, err)
		}
		cancel()
		f.Shutdown()
	})
}

func TestAProgramsOwnInformerIsUsedAsItIs(t *testing.T) {
	f := informers.NewSharedInformerFactory(fake.NewClientset(), time.Minute)
	var resync time.Duration
	own := cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, cache.Indexers{})
	got := f.InformerFor(&corev1.Pod{}, func(_ kubernetes.Interface, period time.Duration) cache.SharedIndexInformer {
		resync = period
		return own
	})
	// The generated code wraps what it is given, so the store tells whose it is.
	if got != own || f.Core().V1().Pods().Informer().GetStore() != own.GetStore() {
		t.Error("the factory has another informer")
	}
	if resync != time.Minute {
		t.Errorf("it was made with a period of %v", resync)
	}
	if f.Apps().V1().Deployments().Informer() == nil {
		t.Error("there is none for another kind")
	}
}

func Example() {
	var clientset kubernetes.Interface = fake.NewClientset([]runtime.Object{pod("shop", "web"), &appsv1.Deployment{}}...)

	factory := informers.NewSharedInformerFactory(clientset, 30*time.Second) // the package's import is what changed
	pods := factory.Core().V1().Pods()
	pods.Informer()
	ctx, cancel := context.WithCancel(context.Background())
	factory.StartWithContext(ctx)
	factory.WaitForCacheSync(ctx.Done())
	p, err := pods.Lister().Pods("shop").Get("web")
	fmt.Println(p.Name, err)
	cancel()
	factory.Shutdown()
	// Output: web <nil>
}
