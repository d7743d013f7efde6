package main

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tarnproject/tarn/apiserver"
)

// seedOwners carries the owner references of seeds over to the server, which gives each
// object a UID of its own and deletes objects whose owners do not exist.
type seedOwners struct {
	uids map[types.UID]types.UID // of the files, of the server
	left []*unstructured.Unstructured
}

// hold takes the owner references out of an object before it is stored.
func (o *seedOwners) hold(obj *unstructured.Unstructured) (owners []metav1.OwnerReference) {
	owners = obj.GetOwnerReferences()
	obj.SetOwnerReferences(nil)
	return owners
}

// stored notes the UID of an object, and the owners that it gets back.
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

// restore sets the references to owners that were seeds, too. Others are left out.
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
