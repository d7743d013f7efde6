// Package reflector feeds a sink, such as a delta.Buffer, with the state of one selection of one
// resource and every change of it. It lists, watches from the list's version, and continues from
// the last version it saw after any failure.
//
// The nouns:
//
//   - [Source] lists and watches. Package wire has the one for a Kubernetes API; [SourceFuncs]
//     makes one from two functions. The reflector knows nothing about HTTP.
//   - [object.Sink] receives batches of changes: a delta.Buffer, or any other implementation.
//   - [object.Intake] is how a source prepares each object, on the goroutine that decodes it:
//     skipped if the sink holds it, transformed, then encoded.
//   - [Reflector] is the state machine between a Source and a Sink. [Reflector.Run] is a loop
//     over [Reflector.Step].
//   - [State] is what it is doing, [Status] everything else that can be observed, and [Reason] why
//     a request ended.
//   - [Budget] bounds how many reflectors list at the same time.
//   - [Quarantined] is an object that could not be read; all others are unaffected.
//
// # States
//
//	Idle ──▶ Streaming ──────────────▶ Watching ◀─┐
//	  │         │  ▲                    │  ▲  │   │
//	  │         ▼  │                    ▼  │  │   │
//	  └─────▶ Listing ──────────────────┼──┘  │   │
//	            │  ▲                    │     │   │
//	            ▼  │                    ▼     │   │
//	           BackingOff ◀─────────────┘     └───┘
//
//	every state ──▶ Stopped
//
// Each state is a type that owns its data: a list in progress belongs to Listing or Streaming, an
// open stream to Streaming or Watching, a delay to BackingOff. Its step function returns the state
// that follows. One step is one page of a list, one batch of events, one watch request, or one
// wait. A list, paged or streamed, changes nothing until it is complete.
//
// # Requests
//
// A list is a streaming list where the server supports it (a watch that begins with the state and
// marks its end with a bookmark), otherwise a LIST. [Status.Streaming] says why the reflector fell
// back to LIST. The first list after an hour tries a streaming list again, since servers are
// upgraded.
//
//   - The first LIST asks for any state ("0"). Later ones ask for a state not older than the last
//     version seen, so that the sink never goes back in time. Only when the server refuses that
//     (410, or a version it has not reached) does the reflector ask for the most recent state. The
//     first streaming list asks for the most recent state: it costs the server no more than any
//     other.
//   - If the first LIST came in pages, later ones are paged as well. Otherwise they have no limit,
//     so that the server answers them from its cache.
//   - A watch asks for bookmarks and for a random timeout. When it ends, the next one begins where
//     it stopped. A LIST follows only if the server no longer has that version, or if watches from
//     it keep failing.
//   - Deletions may share a version, as those of Events that expire together. Where the last event
//     was a deletion, the next watch therefore begins one version earlier, unless a bookmark said
//     that the version is complete; see [Status.Resume]. Repeated deletions count as stale.
//   - A listed version below one already seen means that the server's history was restored (etcd
//     from a backup): the epoch advances, and everything is listed and decoded again. A restored
//     server that has already passed the last version seen cannot be distinguished from one that
//     was never restored. The same holds for a server that accepts a watch from a version it has
//     not reached, until the next list.
//
// # Failures
//
// Only its context, a closed sink or a panic stops a reflector. Every other failure leads to a wait
// with a cause. During 401, 403, TLS and DNS failures the reflector retries, and what the sink
// holds stays readable. Each failure is passed to [Options.OnError], or logged if that is not set,
// and counted by [Reason].
//
// One watchdog ends every request that is silent for too long, for lists, streaming lists and
// watches of any source. The time that the sink takes does not count.
//
// A resource that was served before and whose LIST answers 404 for [Options.RemovedAfter] was removed
// (its CustomResourceDefinition was deleted). The reflector commits an empty list, so that handlers
// receive the deletions, and waits for the resource to return.
//
// # Comparison with client-go's Reflector
//
// Its fields correspond to:
//
//   - name, logger, minWatchTimeout, MaxInternalErrorRetryDuration, watchErrorHandler:
//     [Options.Name], [Options.Logger], [Options.MinWatchTimeout], [Options.ServerErrorsFor],
//     [Options.OnError].
//   - resyncPeriod, ShouldResync: none. The informer replays its store to handlers that ask for it.
//   - WatchListPageSize: [Options.PageSize], which is only a size; whether to page is decided as
//     described above.
//   - store: the [object.Sink]. listerWatcher: the [Source]. useWatchList: [Options.Streaming].
//   - delayHandler, backoffManager, initConnBackoffManager: [Options.Backoff], one for lists and
//     watches, because both go to the same server.
//   - paginatedResult, lastSyncResourceVersion: [Status.Paged] and [Status.Mark].
//     isLastSyncResourceVersionUnavailable is part of the list in progress.
//   - maxWatchTimeout is always twice the minimum.
//   - typeDescription, expectedType, expectedGVK: none. The type is T; the source checks the kind
//     (object.ErrWrongKind).
//   - clock: none; tests use testing/synctest.
package reflector
