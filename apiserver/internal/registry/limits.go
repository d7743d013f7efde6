package registry

import (
	"github.com/tarnproject/tarn/apiserver/internal/apierror"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"k8s.io/apimachinery/pkg/runtime"
)

// maxObject limits the bytes of an encoded object, as in etcd.
const maxObject = 3 << 19

// checkSize rejects an object that is too large for etcd, with etcd's message. It drops the managed
// fields if the object fits without them.
func checkSize(obj runtime.Object) error {
	for range 2 {
		if kinds.SizeOf(obj) <= maxObject {
			return nil
		}
		kinds.MetaOf(obj).SetManagedFields(nil)
	}
	return apierror.Failed("etcdserver: request is too large")
}
