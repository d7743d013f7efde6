// Package testkit has what the tests of several packages share: values that cannot fail, pods, and virtual time. Only
// tests import it.
package testkit

import (
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Must returns v. It panics on an error, so that calls which cannot fail in a test stay expressions.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Pod returns a pod with one container, which every API server accepts. The changes are applied in order.
func Pod(namespace, name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/main"}}},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

// Labeled sets labels, given as alternating keys and values.
func Labeled(pairs ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for i := 0; i+1 < len(pairs); i += 2 {
			metav1.SetMetaDataLabel(&p.ObjectMeta, pairs[i], pairs[i+1])
		}
	}
}

// OnNode sets the node.
func OnNode(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeName = name }
}

// Advance lets virtual time pass, and waits until every goroutine of the bubble is blocked.
func Advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
