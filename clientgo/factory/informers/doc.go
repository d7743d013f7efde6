// Package informers stands in for k8s.io/client-go/informers: the factory of shared
// informers for all built-in kinds, with Tarn's informers in it. A program changes its
// import,
//
//	"github.com/tarnproject/tarn/clientgo/factory/informers" // was "k8s.io/client-go/informers"
//
// and no other line. Everything that is asked of the factory is client-go's interfaces, so
// what it hands out goes wherever client-go's does.
//
// A factory over a clientset reads by that clientset's own List and Watch: it may be a fake
// or have been wrapped by the program. With [WithClient], or from
// [NewSharedInformerFactoryForConfig], informers read by way of Tarn's wire, which decodes
// objects as they arrive and does not decode those that are held already.
//
// It works with every version of client-go that Tarn supports. A group of kinds that only some of them have is
// client-go's own, with client-go's informers: lifecycle, of v0.37.
package informers
