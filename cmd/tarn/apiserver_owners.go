package main

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tarnproject/tarn/apiserver"
)

// seedOwners maps the owner references in seed files to the server's UIDs. The server
// assigns its own UIDs, and its garbage collector deletes objects whose owners do not
// exist.
type seedOwners struct {
	uids map[types.UID]types.UID // UID in the files to UID on the server
	left []*unstructured.Unstructured
}

// hold removes the owner references from an object before it is stored.
func (o *seedOwners) hold(obj *unstructured.Unstructured) (owners []metav1.OwnerReference) {
	owners = obj.GetOwnerReferences()
	obj.SetOwnerReferences(nil)
	return owners
}

// stored records the UID of a stored object and the owner references to restore.
func (o *seedOwners) stored(obj *unstructured.Unstructured, made metav1.Object, owners []metav1.OwnerReference) {
	if o.uids == nil {
		o.uids = map[types.UID]types.UID{}
	}
	if uid := obj.GetUID(); uid != "" {
		o.uids[uid] = made.GetUID()
	}
	if len(owners) > 0 {
		obj.SetOwnerReferences(owners)
		obj.SetNamespace(made.GetNamespace())
		obj.SetName(made.GetName())
		obj.SetUID("")
		obj.SetResourceVersion("")
		o.left = append(o.left, obj)
	}
}

// restore sets the references to owners that were loaded as well. It drops all others.
func (o *seedOwners) restore(server *apiserver.Server) error {
	for _, obj := range o.left {
		owners := slices.DeleteFunc(obj.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return o.uids[ref.UID] == "" })
		for i := range owners {
			owners[i].UID = o.uids[owners[i].UID]
		}
		if len(owners) == 0 {
			continue
		}
		obj.SetOwnerReferences(owners)
		if _, err := server.Update(obj); err != nil {
			return err
		}
	}
	return nil
}
