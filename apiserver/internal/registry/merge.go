package registry

import (
	"reflect"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/special"
	"k8s.io/apimachinery/pkg/runtime"
)

// mergeWrite returns the object that a write of next results in: through a subresource, only the
// fields of that subresource change. It may modify next, and shares memory with it.
func mergeWrite(k *kinds.Kind, subresource string, before, next runtime.Object) runtime.Object {
	old, rules := before.DeepCopyObject(), special.Of(next)
	if subresource == "" || subresource == "finalize" {
		if k.Status {
			kinds.SetStatus(next, old)
		}
		rules.Keep(subresource, next, old)
		return next
	}
	merged := old
	withMeta := subresource == "approval"
	if subresource == "status" {
		withMeta = k.Typed && !kinds.StatusOnly[k.Kind]
		kinds.SetStatus(merged, next)
	} else {
		rules.Copy(subresource, merged, next, k.Strict)
	}
	if withMeta {
		reflect.ValueOf(merged).Elem().FieldByName("ObjectMeta").Set(reflect.ValueOf(next).Elem().FieldByName("ObjectMeta"))
	} else if managed := kinds.MetaOf(next).GetManagedFields(); len(managed) > 0 {
		kinds.MetaOf(merged).SetManagedFields(managed)
	}
	rules.Settle(subresource, merged, before)
	return merged
}
