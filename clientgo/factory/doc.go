// Package factory puts Tarn's informers into the informer factories of existing programs.
//
// A program that uses client-go's own factories changes an import, and no other line:
//
//	informers        k8s.io/client-go/informers, for the built-in kinds
//	dynamicinformer  k8s.io/client-go/dynamic/dynamicinformer
//	metadatainformer k8s.io/client-go/metadata/metadatainformer
//
// They are the packages below this one, with the names and signatures of those, and an
// option more: WithClient reads by way of the wire instead of by the clientset.
//
// A factory that was generated for custom resources is code of the program's own. It keeps
// the first informer of a type that it is given, so that one line more for each type, before
// anybody else asks for it, is enough. [From] makes it read by way of the wire, and
// [Through], by the generated clientset:
//
//	foos := externalversions.NewSharedInformerFactory(clientset, time.Minute)
//	foos.InformerFor(&v1alpha1.Foo{}, factory.From[versioned.Interface](client, resource, factory.Options{}))
//
// Everything that comes from such a factory is then Tarn's: the informers, the indexers,
// and the generated listers, which read those.
package factory
