// Package workqueue is the queue between changes and workers: keys of what is to be
// worked on, each at most once.
//
// A handler that sees a change adds the key. Workers take keys, look up what is so now,
// do what has to be done, and say Done. What failed is added again, later. Nothing is
// lost and nothing is done twice at the same time:
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
// The nouns are [Queue]; [Request], how an item is to be added; [Limiter], which delays
// what failed; and [Item], an item in one of its states, as [Queue.Snapshot] shows
// them. [Plain], [Delaying] and [RateLimiting] are narrower views of a Queue. The
// methods have the names and meanings of client-go's, so a *Queue is what a program
// written for that package expects.
//
// To read the source, begin with Queue in queue.go and entry.go, which is what a queue
// knows of an item. The three places where an item can be are lane.go (waiting),
// run.go (processing) and delay.go; get.go takes from the first into the second.
// wait.go is where idle workers wait.
package workqueue
