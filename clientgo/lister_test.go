package clientgo_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/clientgo"
)

func TestListersSelectTheSameWithAndWithoutALabelIndex(t *testing.T) {
	indexers := map[string]cache.Indexer{
		"client-go": cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}),
		"plain":     clientgo.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}),
		"indexed": clientgo.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{
			cache.NamespaceIndex: cache.MetaNamespaceIndexFunc, clientgo.LabelIndex: clientgo.LabelIndexFunc,
		}),
	}
	for _, indexer := range indexers {
		for i := range 60 {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: fmt.Sprint("ns-", i%3), Name: fmt.Sprint("pod-", i),
				Labels: map[string]string{"app": fmt.Sprint("app-", i%4), "odd": fmt.Sprint(i%2 == 1)},
			}}
			if i%10 == 0 {
				pod.Labels = nil
			}
			if err := indexer.Add(pod); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, text := range []string{"", "app=app-1", "app in (app-1)", "app in (app-1,app-2)", "odd=true,app!=app-1", "app", "!app", "app=none", "odd==false,app=app-2"} {
		selector, err := labels.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, namespace := range []string{"", "ns-1"} {
			var want []string
			err := cache.ListAllByNamespace(indexers["client-go"], namespace, selector, func(obj any) { want = append(want, obj.(*corev1.Pod).Name) })
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(want)
			for name, indexer := range indexers {
				lister := clientgo.NewLister[*corev1.Pod](indexer, corev1.Resource("pods")).Namespace(namespace)
				list, err := lister.List(selector)
				var got []string
				for _, pod := range list {
					got = append(got, pod.Name)
				}
				slices.Sort(got)
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("%q in %q over %s: %v, %v; want %v", text, namespace, name, got, err, want)
				}
			}
		}
	}
	generic := clientgo.NewGenericLister(indexers["indexed"], corev1.Resource("pods")).ByNamespace("ns-1")
	if obj, err := generic.Get("pod-1"); err != nil || obj.(*corev1.Pod).Name != "pod-1" {
		t.Errorf("Get = %v, %v", obj, err)
	}
	if _, err := generic.Get("pod-2"); !errors.IsNotFound(err) {
		t.Errorf("Get of what is elsewhere: %v", err)
	}
}

func ExampleNewLister() {
	pods := clientgo.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{
		cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
		clientgo.LabelIndex:  clientgo.LabelIndexFunc,
	})
	_ = pods.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: map[string]string{"app": "web"}}})
	_ = pods.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}})
	lister := clientgo.NewLister[*corev1.Pod](pods, corev1.Resource("pods"))
	list, err := lister.List(labels.SelectorFromSet(labels.Set{"app": "web"}))
	fmt.Println(len(list), list[0].Name, err)
	// Output: 1 web <nil>
}
