// Package workqueue is the queue between changes and workers. It holds the keys of objects
// that need work, each at most once.
//
// A handler that sees a change adds the key. A worker takes a key, reads the object's
// current state, does the work and calls Done. A key whose work failed is added again with
// a delay. No key is lost, and no key is with two workers at the same time:
//
//	q := workqueue.New(workqueue.Options[string]{})
//	q.Add("default/web") // from a handler
//
//	for { // in each worker
//		key, shutdown := q.Get()
//		if shutdown {
//			return
//		}
//		if err := reconcile(key); err != nil {
//			q.AddRateLimited(key)
//		} else {
//			q.Forget(key)
//		}
//		q.Done(key)
//	}
//
// The types are [Queue]; [Request], which says how items are added; [Limiter], which
// returns the delay of an item that failed; and [Item], an item in one of its states, as
// [Queue.Snapshot] lists them. The methods have the names and meanings of client-go's, so a
// *Queue fits programs that were written for that package.
//
// To read the source, begin with Queue in queue.go and entry.go, the record of an item. An
// item is in up to three places: waiting (lane.go), processing (run.go) and delayed
// (delay.go). get.go moves it from the first to the second. shrink.go gives memory back.
package workqueue
