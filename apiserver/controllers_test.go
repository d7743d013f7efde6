package apiserver_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tarnproject/tarn/apiserver"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Each controller can be switched off, and NoControllers switches off all of them: what a client
// deletes stays as kube-apiserver alone leaves it.
func TestControllersCanBeSwitchedOff(t *testing.T) {
	for name, c := range map[string]struct {
		opts                       apiserver.Options
		garbage, namespaces, roles bool // are processed
	}{
		"defaults":         {apiserver.Options{}, false, true, true},
		"all":              {apiserver.Options{CollectGarbage: true}, true, true, true},
		"keep namespaces":  {apiserver.Options{CollectGarbage: true, KeepNamespaces: true}, true, false, true},
		"no aggregation":   {apiserver.Options{CollectGarbage: true, NoRoleAggregation: true}, true, true, false},
		"none":             {apiserver.Options{NoControllers: true}, false, false, false},
		"none in spite of": {apiserver.Options{CollectGarbage: true, NoControllers: true}, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := apiserver.Start(t, c.opts)
			fill(t, s, namespace("shop"), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "kept"}},
				owned("orphan", "ConfigMap", "gone", "no-uid"))
			if got := get(t, s, configMaps+"/orphan").code; (got == http.StatusNotFound) != c.garbage {
				t.Errorf("an object without its owner: %d", got)
			}
			do(t, s, http.MethodDelete, shop, "")
			a, content := get(t, s, shop), get(t, s, shop+"/configmaps/kept")
			if c.namespaces {
				if a.code != http.StatusNotFound || content.code != http.StatusNotFound {
					t.Errorf("the namespace %s and its content %s", a.raw, content.raw)
				}
			} else {
				if a.at("status", "phase") != "Terminating" || a.at("spec", "finalizers") != "[kubernetes]" || content.code != http.StatusOK {
					t.Errorf("the namespace %s and its content %s", a.raw, content.raw)
				}
				do(t, s, http.MethodPost, shop+"/configmaps", `{"metadata":{"name":"late"}}`).refused(t, http.StatusForbidden, "Forbidden", "because it is being terminated")
				do(t, s, http.MethodDelete, shop+"/configmaps/kept", "")
				if a := get(t, s, shop); a.code != http.StatusOK {
					t.Errorf("the empty namespace: %s", a.raw)
				}
				do(t, s, http.MethodPut, shop+"/finalize", `{"metadata":{"name":"shop"},"spec":{"finalizers":[]}}`)
				if a := get(t, s, shop); a.code != http.StatusNotFound {
					t.Errorf("the namespace after its finalizer: %s", a.raw)
				}
			}
			c.opts.RBAC = true
			s = apiserver.Start(t, c.opts)
			fill(t, s, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
				Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "reader"}}})
			_, err := clientsetOf(t, s.ConfigFor("reader")).CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
			if (err == nil) != c.roles {
				t.Errorf("with an aggregated role: %v", err)
			}
		})
	}
}

// Volumes and claims have the finalizer that only a controller removes, so they stay when deleted.
func TestE04_WithoutControllersDeletedVolumesStay(t *testing.T) {
	for _, none := range []bool{false, true} {
		s := apiserver.Start(t, apiserver.Options{NoControllers: none})
		fill(t, s, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
			&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}})
		for _, path := range []string{"/api/v1/persistentvolumes/a", "/apis/storage.k8s.io/v1/volumeattributesclasses/a", "/api/v1/namespaces/default/persistentvolumeclaims/a"} {
			do(t, s, http.MethodDelete, path, "")
			if a := get(t, s, path); (a.code == http.StatusOK) != none || none && strings.Count(a.at("metadata", "finalizers"), "-protection") != 1 {
				t.Errorf("no controllers %t: %s", none, a.raw)
			}
		}
	}
}

// A controller that is notified of the marking of a pod still finds it, as with the two writes of
// kube-apiserver. With controllers, the pod is removed at the same time.
func TestWithoutControllersAMarkedPodIsFound(t *testing.T) {
	for _, none := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := apiserver.Start(t, apiserver.Options{NoControllers: none})
			fill(t, s, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}})
			pods := clientset(t, s).CoreV1().Pods("default")
			w, err := pods.Watch(t.Context(), metav1.ListOptions{ResourceVersion: version(s)})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			deleted := make(chan error)
			go func() { deleted <- pods.Delete(context.Background(), "a", metav1.DeleteOptions{}) }()
			<-w.ResultChan() // MODIFIED
			synctest.Wait()
			if pod, err := pods.Get(t.Context(), "a", metav1.GetOptions{}); (err == nil && pod.DeletionTimestamp != nil) != none {
				t.Errorf("no controllers %t: %v", none, err)
			}
			if err := <-deleted; err != nil {
				t.Error(err)
			}
			if e := <-w.ResultChan(); e.Type != watch.Deleted {
				t.Errorf("then %v", e)
			}
		})
	}
}

// A foreground deletion waits for a garbage collector that does not run, as on kube-apiserver.
func TestWithoutControllersAForegroundDeletionDoesNotEnd(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{NoControllers: true})
	uid := uidOf(t, s, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}})
	fill(t, s, owned("child", "ConfigMap", "owner", uid))
	do(t, s, http.MethodDelete, configMaps+"/owner", `{"propagationPolicy":"Foreground"}`)
	if a := get(t, s, configMaps+"/owner"); !strings.Contains(a.at("metadata", "finalizers"), metav1.FinalizerDeleteDependents) {
		t.Error(a.raw)
	}
	do(t, s, http.MethodPatch, configMaps+"/owner", `{"metadata":{"finalizers":null}}`, "Content-Type", mergePatch)
	if left := get(t, s, configMaps).names(); strings.Join(left, " ") != "child" {
		t.Errorf("left are %v", left)
	}
}
