// Package factory puts Tarn's informers into the informer factories of existing programs.
//
// A program that uses client-go's own factories changes an import, and no other line:
//
//	informers        k8s.io/client-go/informers, for the built-in kinds
//	dynamicinformer  k8s.io/client-go/dynamic/dynamicinformer
//	metadatainformer k8s.io/client-go/metadata/metadatainformer
//
// They are the packages below this one, with the same names and signatures and one more option:
// WithClient reads through Tarn's client instead of the clientset.
//
// A factory that was generated for custom resources is the program's own code. It keeps the first
// informer of a type that it is given, so one more line for each type is enough, before any other
// code asks for that informer. [From] makes it read through Tarn's client, and [Through] through the
// generated clientset:
//
//	foos := externalversions.NewSharedInformerFactory(clientset, time.Minute)
//	foos.InformerFor(&v1alpha1.Foo{}, factory.From[versioned.Interface](client, resource, factory.Options{}))
//
// The informers and indexers of such a factory are then Tarn's, and the generated listers read
// them.
package factory
