package factory_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/clientgo/factory"
	"github.com/tarnproject/tarn/internal/testkit"
	"github.com/tarnproject/tarn/wire"
)

// A factory that was generated, as client-go's is, keeps the informer that it is given first. Its own informers and listers are
// then Tarn's. Package e2e/adapters runs whole programs in that way.
func TestAGeneratedFactoryTakesTarnsInformers(t *testing.T) {
	for name, add := range map[string]func(informers.SharedInformerFactory, *wire.Client){
		"by the wire": func(f informers.SharedInformerFactory, client *wire.Client) {
			f.InformerFor(&corev1.Pod{}, factory.From[kubernetes.Interface](client, wire.MustOf[*corev1.Pod](), factory.Options{Namespace: "default"}))
		},
		"by the clientset": func(f informers.SharedInformerFactory, _ *wire.Client) {
			f.InformerFor(&corev1.Pod{}, factory.Through(&corev1.Pod{}, func(c kubernetes.Interface) factory.Typed[*corev1.PodList] {
				return c.CoreV1().Pods("default")
			}, factory.Options{}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := apiserver.Start(t, apiserver.Options{AnyNamespace: true})
				testkit.Must(server.Create(testkit.Pod("default", "web")))
				testkit.Must(server.Create(testkit.Pod("elsewhere", "web")))
				client := testkit.Must(wire.New(server.Config(), wire.Options{}))
				f := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(server.Config()), time.Hour)
				add(f, client)
				pods := f.Core().V1().Pods()
				var calls []string
				testkit.Must(pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
					AddFunc:    func(obj any) { calls = append(calls, "add "+obj.(*corev1.Pod).Name) },
					DeleteFunc: func(obj any) { calls = append(calls, "delete "+obj.(*corev1.Pod).Name) },
				}))
				ctx, stop := context.WithCancel(t.Context())
				defer f.Shutdown()
				defer stop()
				f.StartWithContext(ctx)
				f.WaitForCacheSyncWithContext(ctx)
				synctest.Wait()
				server.Cut("")
				testkit.Must(server.Create(testkit.Pod("default", "db", testkit.Labeled("app", "db"))))
				if err := server.Delete(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}); err != nil {
					t.Fatal(err)
				}
				testkit.Advance(time.Minute)
				list, err := pods.Lister().Pods("default").List(labels.SelectorFromSet(labels.Set{"app": "db"}))
				if err != nil || len(list) != 1 || !slices.Equal(calls, []string{"add web", "add db", "delete web"}) {
					t.Errorf("listed %d, %v; the handler saw %q", len(list), err, calls)
				}
			})
		})
	}
}
