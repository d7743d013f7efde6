package apiserver_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/tarnproject/tarn/apiserver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// TestAHundredServersShareNothing runs a hundred servers at the same time, each with a client
// that lists, watches and writes.
func TestAHundredServersShareNothing(t *testing.T) {
	clients := make([]*kubernetes.Clientset, 100)
	for i := range clients {
		clients[i] = clientset(t, apiserver.Start(t, apiserver.Options{}))
	}
	var using sync.WaitGroup
	for i, c := range clients {
		using.Go(func() {
			if err := listWatchWrite(t, c, fmt.Sprintf("p%d", i)); err != nil {
				t.Errorf("server %d: %v", i, err)
			}
		})
	}
	using.Wait()
}

func listWatchWrite(t *testing.T, c *kubernetes.Clientset, name string) error {
	api := c.CoreV1().Pods("default")
	list, err := api.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	w, err := api.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return err
	}
	defer w.Stop()
	if _, err := api.Create(t.Context(), pod(name), metav1.CreateOptions{}); err != nil {
		return err
	}
	if ev := <-w.ResultChan(); ev.Type != watch.Added || ev.Object.(*corev1.Pod).Name != name {
		return fmt.Errorf("got event %+v", ev)
	}
	list, err = api.List(t.Context(), metav1.ListOptions{})
	if err == nil && len(list.Items) != 1 {
		err = fmt.Errorf("%d pods", len(list.Items))
	}
	return err
}
