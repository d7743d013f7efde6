package tarn_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/object"
)

func TestHistoryIsBoundedInBytesAndVersions(t *testing.T) {
	withCluster(t, with(), func(t *testing.T, r *testCluster) {
		must(tarn.MirrorOf[*corev1.ConfigMap](r.Cluster))
		maps := must(tarn.MirrorOf[*corev1.ConfigMap](r.Cluster, tarn.KeepHistory(2), tarn.Mask(object.FieldPath{"data", "a"})))
		must(tarn.MirrorOf[*corev1.ConfigMap](r.Cluster, tarn.KeepHistory(5), tarn.Mask(object.FieldPath{"data", "b"}, object.FieldPath{"data", "a"})))
		if st := maps.Status(); st.History != 5 || fmt.Sprint(st.Masked) != "[data.a data.b]" {
			t.Errorf("%+v", st)
		}
		old := &corev1.ConfigMap{}
		old.Namespace, old.Name = "shop", "before"
		r.create(old)
		r.start()
		versions := func(name string) int { return len(r.MirrorNamed("configmaps").History(key("shop", name))) }
		// 50 objects with versions of 900 kB each are more than 32 MiB.
		for i := range 50 {
			m := &corev1.ConfigMap{Data: map[string]string{"text": strings.Repeat("x", 900_000)}}
			m.Namespace, m.Name = "shop", fmt.Sprintf("m%02d", i)
			r.create(m)
		}
		if versions("m00") != 0 || versions("m49") != 1 {
			t.Errorf("%d and %d versions", versions("m00"), versions("m49"))
		}
		// The state before the first change that is seen was not added then.
		old.Data = map[string]string{"n": "1"}
		must(r.srv.Update(old))
		synctest.Wait()
		if before := r.MirrorNamed("configmaps").History(key("shop", "before")); len(before) != 2 || before[0].Kind != "first seen" || !before[0].At.IsZero() || before[1].Kind != "updated" || before[1].At.IsZero() {
			t.Errorf("%+v", before)
		}
		small := &corev1.ConfigMap{}
		small.Namespace, small.Name = "shop", "small"
		now := must(r.srv.Create(small)).(*corev1.ConfigMap)
		for i := range 10 {
			next := now.DeepCopy()
			next.Data = map[string]string{"n": fmt.Sprint(i)}
			now = must(r.srv.Update(next)).(*corev1.ConfigMap)
			synctest.Wait()
		}
		if versions("small") != 5 {
			t.Errorf("%d versions", versions("small"))
		}
	})
	for _, opt := range []tarn.Option{tarn.KeepHistory(0), tarn.KeepHistory(101), tarn.Mask(nil)} {
		withCluster(t, with(), func(t *testing.T, r *testCluster) {
			if _, err := tarn.MirrorOf[*corev1.Pod](r.Cluster, opt); err == nil {
				t.Error("an invalid option was accepted")
			}
		})
	}
}
