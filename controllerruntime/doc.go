// Package controllerruntime puts Tarn's mirrors under an unchanged controller-runtime program:
//
//	mgr, err := ctrl.NewManager(config, ctrl.Options{NewCache: controllerruntime.NewCache})
//
// Everything else stays: [NewCache] honours cache.Options, and reconcilers, predicates, field indexes and
// clients work as before. The manager needs a fraction of the memory, because the cache holds objects as the
// server sends them, compressed, and decodes one when it is read. controller-runtime copies what it returns;
// here decoding replaces the copy.
//
// The names:
//
//   - [NewCache] makes the cache with the defaults, [Cache] with [Options]: the form of a kind and the fields
//     that it drops.
//   - [NewClient] makes a client that never reads an older state than this process wrote.
//   - [ClusterOf] returns the tarn.Cluster behind a cache: its status, console, metrics and permissions.
//   - [Ready] is a readiness check that says which kind is not synced, and why.
//
// # Mirrors and views
//
// A mirror is one list and one watch of a kind in some namespaces. A view is what GetInformer returns: a
// mirror, or several, read as one Go type. The typed, the unstructured and the metadata-only view of a kind
// share a mirror if one encoding serves them:
//
//	                      shares the mirror of
//	metadata-only view    a typed or an unstructured view that exists already
//	typed view            an unstructured one, and the reverse, if objects are JSON: custom resources
//
// A view with a transform, or whose objects are held decoded, has mirrors of its own. Namespaces with equal
// settings share a mirror too, with a list and a watch for each.
//
// # What readers own
//
// As in controller-runtime, what Get and List return belongs to the caller, and is shared and read-only with
// UnsafeDisableDeepCopy. A kind for which cache.Options disables copies is held decoded, so that its reads
// are free. If only some reads disable them, the objects that they return are kept decoded until they change.
// Objects that handlers and index functions are given are always shared.
package controllerruntime
