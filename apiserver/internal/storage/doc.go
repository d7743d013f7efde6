// Package storage holds the objects of all kinds and the history of their changes, as etcd and the watch
// cache of kube-apiserver do. [Storage] has both, with one resource version counter. A [Page] is the
// result of a list of what a [Selection] selects, and a [Watcher] is a cursor in the history.
package storage
