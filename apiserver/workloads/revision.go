package workloads

import (
	"context"
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/wire"
)

// revisionPatch is the content of a ControllerRevision: the patch with which kubectl rollout
// undo restores a template.
type revisionPatch struct {
	Spec struct {
		Template struct {
			corev1.PodTemplateSpec `json:",inline"`
			Patch                  string `json:"$patch"`
		} `json:"template"`
	} `json:"spec"`
}

// ensureRevision creates the ControllerRevision of a template, gives it the highest revision
// and deletes the oldest of those that are not in use, by name. It returns its name and hash.
func ensureRevision[T tarn.Object](ctx context.Context, w *Workloads, owners objects[T], owner T, template *corev1.PodTemplateSpec, limit *int32, used map[string]bool) (name, hash string, err error) {
	hash = hashOf(template, nil)
	name = owner.GetName() + "-" + hash
	var last int64
	var current *appsv1.ControllerRevision
	var unused []*appsv1.ControllerRevision
	for _, rev := range w.revisions.of(owner) {
		switch {
		case rev.Name == name:
			current = rev
		case !used[rev.Name]:
			unused = append(unused, rev)
		}
		if rev.Name != name {
			last = max(last, rev.Revision)
		}
	}
	if current == nil {
		var patch revisionPatch
		patch.Spec.Template.PodTemplateSpec, patch.Spec.Template.Patch = *template, "replace"
		data, err := json.Marshal(patch)
		if err != nil {
			return "", "", err
		}
		rev := &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Namespace: owner.GetNamespace(), Name: name, Labels: with(template.Labels, appsv1.ControllerRevisionHashLabelKey, hash), Annotations: owner.GetAnnotations()},
			Data:       runtime.RawExtension{Raw: data}, Revision: last + 1,
		}
		if err := owners.client.SetOwner(rev, owner); err != nil {
			return "", "", err
		}
		if _, err := w.revisions.client.Create(ctx, rev); err != nil && !apierrors.IsAlreadyExists(err) {
			return "", "", err
		}
	} else if current.Revision <= last {
		if _, err := w.revisions.client.Patch(ctx, keyOf(current), wire.MergePatchOf(map[string]any{"revision": last + 1})); err != nil {
			return "", "", err
		}
	}
	if limit != nil && *limit < 0 {
		return name, hash, nil // all are kept, as for a StatefulSet on a real server
	}
	for i := range len(unused) - int(value(limit, 10)) {
		if err := w.revisions.remove(ctx, unused[i]); err != nil {
			return "", "", err
		}
	}
	return name, hash, nil
}

// templateOf returns the template of a ControllerRevision, or a default if it does not exist.
func (w *Workloads) templateOf(namespace, revision string, otherwise *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	rev, ok := w.revisions.Get(tarn.Key{Namespace: namespace, Name: revision})
	var patch revisionPatch
	if !ok || json.Unmarshal(rev.Data.Raw, &patch) != nil {
		return otherwise
	}
	return &patch.Spec.Template.PodTemplateSpec
}
