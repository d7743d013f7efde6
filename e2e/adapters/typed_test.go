package adapters

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/clientgo"
	"github.com/tarnproject/tarn/wire"
)

// client-go's typed wrappers, which it has since v0.37, take any informer and indexer.
func TestClientGosTypedWrappersWorkOverOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.Start(t, apiserver.Options{Seed: 1})
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Data: map[string]string{"sky": "blue"}}
		if _, err := server.Create(config); err != nil {
			t.Fatal(err)
		}
		client, err := wire.New(server.Config(), wire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		lw, err := clientgo.NewListWatch(client, wire.MustOf[*corev1.ConfigMap](), clientgo.ListWatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		inf := cache.NewTypedSharedIndexInformer[*corev1.ConfigMap](clientgo.NewSharedIndexInformer(lw, &corev1.ConfigMap{}, 0, cache.Indexers{}))
		err = inf.AddTypedIndexers(cache.TypedIndexers[*corev1.ConfigMap]{"sky": func(m *corev1.ConfigMap) ([]string, error) { return []string{m.Data["sky"]}, nil }})
		if err != nil {
			t.Fatal(err)
		}
		var calls []string
		reg, err := inf.AddTypedEventHandler(cache.TypedResourceEventHandlerDetailedFuncs[*corev1.ConfigMap]{
			AddFunc: func(m *corev1.ConfigMap, initial bool) {
				calls = append(calls, fmt.Sprint("add ", m.Name, " ", initial))
			},
			UpdateFunc: func(_, m *corev1.ConfigMap) { calls = append(calls, "update "+m.Data["sky"]) },
			DeleteFunc: func(gone cache.DeletedObject[*corev1.ConfigMap]) { calls = append(calls, "delete "+gone.GetKey()) },
		})
		if err != nil {
			t.Fatal(err)
		}
		go inf.RunWithContext(t.Context())
		if !cache.WaitFor(t.Context(), "", inf.HasSyncedChecker(), reg.HasSyncedChecker()) {
			t.Error("not synced")
		}
		config.Data["sky"] = "grey"
		if _, err := server.Update(config); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		found, err := inf.GetTypedIndexer().ByTypedIndex("sky", "grey")
		if err != nil || len(found) != 1 || found[0].Name != "a" {
			t.Errorf("by index: %v, %v", found, err)
		}
		if err := server.Delete(config); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if want := []string{"add a true", "update grey", "delete default/a"}; !slices.Equal(calls, want) {
			t.Errorf("received %q, want %q", calls, want)
		}
	})
}
