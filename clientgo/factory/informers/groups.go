package informers

import (
	"k8s.io/client-go/informers/admissionregistration"
	"k8s.io/client-go/informers/apiserverinternal"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/autoscaling"
	"k8s.io/client-go/informers/batch"
	"k8s.io/client-go/informers/certificates"
	"k8s.io/client-go/informers/coordination"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/discovery"
	"k8s.io/client-go/informers/events"
	"k8s.io/client-go/informers/extensions"
	"k8s.io/client-go/informers/flowcontrol"
	"k8s.io/client-go/informers/networking"
	"k8s.io/client-go/informers/node"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/rbac"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/informers/storagemigration"
)

// The groups are client-go's own, which ask the factory for informers. Those that only newer versions of
// client-go have come from the embedded factory of client-go.

func (f *shared) Admissionregistration() admissionregistration.Interface {
	return admissionregistration.New(own{f}, f.namespace, f.tweak)
}
func (f *shared) Internal() apiserverinternal.Interface {
	return apiserverinternal.New(own{f}, f.namespace, f.tweak)
}
func (f *shared) Apps() apps.Interface { return apps.New(own{f}, f.namespace, f.tweak) }
func (f *shared) Autoscaling() autoscaling.Interface {
	return autoscaling.New(own{f}, f.namespace, f.tweak)
}
func (f *shared) Batch() batch.Interface { return batch.New(own{f}, f.namespace, f.tweak) }
func (f *shared) Certificates() certificates.Interface {
	return certificates.New(own{f}, f.namespace, f.tweak)
}
func (f *shared) Coordination() coordination.Interface {
	return coordination.New(own{f}, f.namespace, f.tweak)
}
func (f *shared) Core() core.Interface           { return core.New(own{f}, f.namespace, f.tweak) }
func (f *shared) Discovery() discovery.Interface { return discovery.New(own{f}, f.namespace, f.tweak) }
func (f *shared) Events() events.Interface       { return events.New(own{f}, f.namespace, f.tweak) }
func (f *shared) Extensions() extensions.Interface {
	return extensions.New(own{f}, f.namespace, f.tweak)
}
func (f *shared) Flowcontrol() flowcontrol.Interface {
	return flowcontrol.New(own{f}, f.namespace, f.tweak)
}
func (f *shared) Networking() networking.Interface {
	return networking.New(own{f}, f.namespace, f.tweak)
}
func (f *shared) Node() node.Interface         { return node.New(own{f}, f.namespace, f.tweak) }
func (f *shared) Policy() policy.Interface     { return policy.New(own{f}, f.namespace, f.tweak) }
func (f *shared) Rbac() rbac.Interface         { return rbac.New(own{f}, f.namespace, f.tweak) }
func (f *shared) Resource() resource.Interface { return resource.New(own{f}, f.namespace, f.tweak) }
func (f *shared) Scheduling() scheduling.Interface {
	return scheduling.New(own{f}, f.namespace, f.tweak)
}
func (f *shared) Storage() storage.Interface { return storage.New(own{f}, f.namespace, f.tweak) }
func (f *shared) Storagemigration() storagemigration.Interface {
	return storagemigration.New(own{f}, f.namespace, f.tweak)
}
