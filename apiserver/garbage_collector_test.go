package apiserver_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/internal/soak"
	"github.com/tarnproject/tarn/object"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const configMaps = "/api/v1/namespaces/default/configmaps"

// uidOf creates an object and returns its UID.
func uidOf(t testing.TB, s *apiserver.Server, cm *corev1.ConfigMap) types.UID {
	t.Helper()
	return must(s.Create(cm)).(*corev1.ConfigMap).UID
}

// adopt sets an existing config map as the owner of another.
func adopt(t testing.TB, s *apiserver.Server, name string, by *corev1.ConfigMap) {
	t.Helper()
	cm := must(s.Get(corev1.SchemeGroupVersion.WithResource("configmaps"), object.Key{Namespace: "default", Name: name})).(*corev1.ConfigMap).DeepCopy()
	cm.OwnerReferences = append(cm.OwnerReferences, by.OwnerReferences...)
	must(s.Update(cm))
}

func TestForegroundDeletionOfAnOwnershipCycleTerminates(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationBackground, metav1.DeletePropagationOrphan} {
			s := apiserver.Start(t, apiserver.Options{CollectGarbage: true})
			var names []string
			uids := map[string]types.UID{}
			for i := range n {
				names = append(names, fmt.Sprintf("ring-%d", i))
				uids[names[i]] = uidOf(t, s, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: names[i]}})
			}
			for i, name := range names {
				owner := names[(i+n-1)%n]
				adopt(t, s, name, owned(name, "ConfigMap", owner, uids[owner]))
			}
			// An object that depends on the cycle, but not the other way round.
			fill(t, s, owned("tail", "ConfigMap", names[n-1], uids[names[n-1]]))
			if err := clientset(t, s).CoreV1().ConfigMaps("default").Delete(t.Context(), names[0], metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
				t.Fatal(err)
			}
			left := get(t, s, configMaps).names()
			if want := n; policy == metav1.DeletePropagationOrphan {
				if len(left) != want { // all except the deleted one and the tail
					t.Errorf("a ring of %d, %s: left are %v", n, policy, left)
				}
			} else if len(left) != 0 {
				t.Errorf("a ring of %d, %s: left are %v", n, policy, left)
			}
		}
	}
}

func TestForegroundDeletionOfACycleWaitsForOtherDependents(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{CollectGarbage: true})
	uid := uidOf(t, s, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "self"}})
	adopt(t, s, "self", owned("self", "ConfigMap", "self", uid))
	kept := owned("kept", "ConfigMap", "self", uid)
	kept.Finalizers = []string{"example.com/wait"}
	fill(t, s, kept)
	foreground := metav1.DeletePropagationForeground
	api := clientset(t, s).CoreV1().ConfigMaps("default")
	if err := api.Delete(t.Context(), "self", metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	if left := get(t, s, configMaps).names(); !slices.Equal(left, []string{"kept", "self"}) {
		t.Errorf("while a dependent is kept: %v", left)
	}
	do(t, s, http.MethodPatch, configMaps+"/kept", `{"metadata":{"finalizers":null}}`, "Content-Type", "application/merge-patch+json")
	if left := get(t, s, configMaps).names(); len(left) != 0 {
		t.Errorf("afterwards: %v", left)
	}
}

func TestADeepChainOfOwnersIsCollected(t *testing.T) {
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationBackground} {
		s := apiserver.Start(t, apiserver.Options{CollectGarbage: true})
		uid := uidOf(t, s, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c-0"}})
		for i := range soak.Rounds(200) {
			uid = uidOf(t, s, owned(fmt.Sprintf("c-%d", i+1), "ConfigMap", fmt.Sprintf("c-%d", i), uid))
		}
		if err := clientset(t, s).CoreV1().ConfigMaps("default").Delete(t.Context(), "c-0", metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
			t.Fatal(err)
		}
		if left := get(t, s, configMaps).names(); len(left) != 0 {
			t.Errorf("%s: left are %v", policy, left)
		}
	}
}

func TestDependentsOfDeletedOwnersAreCollected(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{CollectGarbage: true})
	if err := s.Define(apiserver.Definition{Resource: lakes}); err != nil {
		t.Fatal(err)
	}
	api := clientset(t, s).CoreV1().ConfigMaps("default")
	lives := uidOf(t, s, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "lives"}})
	create := func(cm *corev1.ConfigMap) {
		t.Helper()
		if _, err := api.Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create(owned("never", "Pod", "nothing", "no-such-uid"))
	create(owned("another-uid", "ConfigMap", "lives", "no-such-uid"))
	shared := owned("shared", "ConfigMap", "lives", lives)
	shared.OwnerReferences = append(shared.OwnerReferences, owned("x", "Pod", "nothing", "no-such-uid").OwnerReferences...)
	create(shared)
	// An owner whose kind is not served may exist elsewhere.
	create(owned("unknown", "Unheard", "of", "some-uid"))
	if left := get(t, s, configMaps).names(); strings.Join(left, " ") != "lives shared unknown" {
		t.Errorf("left are %v", left)
	}
	if refs := must(api.Get(t.Context(), "shared", metav1.GetOptions{})).OwnerReferences; len(refs) != 1 || refs[0].UID != lives {
		t.Errorf("the owner that does not exist is still named: %v", refs)
	}
	// An update can add an owner as well.
	adopted := must(api.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "adopted"}}, metav1.CreateOptions{}))
	adopted.OwnerReferences = owned("x", "Pod", "nothing", "no-such-uid").OwnerReferences
	if _, err := api.Update(t.Context(), adopted, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := api.Get(t.Context(), "adopted", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("adopted by an owner that does not exist: %v", err)
	}
	// Dependents of a custom object are deleted with its definition.
	fill(t, s, lake("tarn"))
	owner := must(s.Get(lakes.GVR(), object.Key{Namespace: "default", Name: "tarn"})).(metav1.Object)
	fish := owned("fish", "Lake", "tarn", owner.GetUID())
	fish.OwnerReferences[0].APIVersion = "example.com/v1"
	create(fish)
	s.Undefine("example.com", "lakes")
	if _, err := api.Get(t.Context(), "fish", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after its owner's kind was removed: %v", err)
	}
}

func TestAnOwnerIsReleasedWhenADependentDropsItsReference(t *testing.T) {
	for name, patch := range map[string]string{
		"unblocks": `[{"op":"replace","path":"/metadata/ownerReferences/0/blockOwnerDeletion","value":false}]`,
		"leaves":   `[{"op":"remove","path":"/metadata/ownerReferences"}]`,
	} {
		s := apiserver.Start(t, apiserver.Options{CollectGarbage: true})
		uid := uidOf(t, s, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}})
		kept := owned("kept", "ConfigMap", "owner", uid)
		kept.Finalizers = []string{"example.com/wait"}
		fill(t, s, kept)
		foreground := metav1.DeletePropagationForeground
		if err := clientset(t, s).CoreV1().ConfigMaps("default").Delete(t.Context(), "owner", metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
			t.Fatal(err)
		}
		do(t, s, http.MethodPatch, configMaps+"/kept", patch, "Content-Type", "application/json-patch+json")
		if left := get(t, s, configMaps).names(); !slices.Equal(left, []string{"kept"}) {
			t.Errorf("%s: left are %v", name, left)
		}
	}
}

func TestDependentsCreatedWhileTheirOwnerIsDeletedAreCollected(t *testing.T) {
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationBackground} {
		s := apiserver.Start(t, apiserver.Options{CollectGarbage: true})
		api := clientset(t, s).CoreV1().ConfigMaps("default")
		uid := uidOf(t, s, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}})
		var wait sync.WaitGroup
		for w := range 3 {
			wait.Go(func() {
				for i := range 15 {
					if _, err := api.Create(t.Context(), owned(fmt.Sprintf("d-%d-%d", w, i), "ConfigMap", "owner", uid), metav1.CreateOptions{}); err != nil {
						t.Error(err)
					}
					if w == 0 && i == 5 {
						if err := api.Delete(t.Context(), "owner", metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		wait.Wait()
		if left := get(t, s, configMaps).names(); len(left) != 0 {
			t.Errorf("%s: %d are left: %v", policy, len(left), left)
		}
	}
}

func TestCreatesRacingWithNamespaceDeletionLeaveNoObjects(t *testing.T) {
	for _, anyNamespace := range []bool{false, true} {
		s := apiserver.Start(t, apiserver.Options{AnyNamespace: anyNamespace})
		api := clientset(t, s).CoreV1()
		for round := range soak.Rounds(20) {
			name := fmt.Sprintf("shop-%d", round)
			fill(t, s, namespace(name))
			var wait sync.WaitGroup
			for w := range 3 {
				wait.Go(func() {
					for i := range 5 {
						cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c-%d-%d", w, i)}}
						_, err := api.ConfigMaps(name).Create(t.Context(), cm, metav1.CreateOptions{})
						if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
							t.Error(err)
						}
					}
				})
			}
			if err := api.Namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			wait.Wait()
			if _, err := api.Namespaces().Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("the namespace: %v", err)
			}
			// Without the namespace check, objects may be created later.
			if left := get(t, s, "/api/v1/namespaces/"+name+"/configmaps").names(); !anyNamespace && len(left) != 0 {
				t.Errorf("left in a namespace that is deleted: %v", left)
			}
		}
	}
}
