// Package reflector keeps a sink, such as a delta.FIFO, fed with everything that happens to one
// selection of one resource: it lists, watches from the version of the list, and goes
// on from the last version it saw whatever breaks.
//
// The nouns:
//
//   - [Source] lists and watches. Package wire has the one for a Kubernetes API;
//     [SourceFuncs] makes one of two functions. The reflector knows nothing of HTTP.
//   - [Sink] is what is told: a delta.FIFO, or whoever wants to be told without a queue.
//   - [Reflector] is the state machine between a Source and a Sink. [Reflector.Run]
//     is a loop over [Reflector.Step].
//   - [State] is where it stands, [Status] everything else there is to see of it,
//     [Reason] why a request ended.
//   - [Budget] bounds how many reflectors list at the same time.
//   - [Quarantined] is an object that could not be read; the others go on without it.
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
// One step is one page of a list, one batch of events, one request to watch, or one
// wait. A list, paged or streamed, changes nothing until it is complete.
//
// # What is asked of the server
//
// The state comes by streaming list where the server can (a watch that begins with
// the state and marks its end by a bookmark), otherwise by LIST. What made it fall
// back is remembered and told in [Status.Streaming]; the first list after an hour tries
// again, since servers are upgraded.
//
//   - The first LIST asks for any state ("0"). Later ones ask for a state not older
//     than the last version seen, so that the mirror never goes back in time. Only when
//     the server refuses that (410, or a version it has not reached) is the most recent
//     state asked for. A streaming list asks for the most recent state the first time:
//     it costs the server no more than any other.
//   - If the first LIST came in pages, later ones are paged as well; otherwise they
//     have no limit, so that the server answers them from its cache.
//   - A watch asks for bookmarks and for an end after a random time. When it ends, the
//     next begins where it stopped. There is no LIST unless the server has forgotten
//     that version or the same version keeps failing.
//   - Deletions may share a version, as those of Events that expire together. So where the
//     last event was a deletion the next watch begins one version earlier, unless a
//     bookmark has said that there are no more; see [Status.Resume]. What comes again is
//     counted as stale and told nobody.
//   - A listed version below one already seen means that the server's history began
//     anew (etcd came back from a backup): the epoch goes up and everything is listed
//     and decoded afresh. A restored server that has already passed the last version
//     seen cannot be told from one that was never restored; nor can one that takes a
//     watch from a version it has not reached, until the next list.
//
// # What is reported
//
// Nothing stops a reflector but its context, its sink being closed, or a panic. All
// else is a wait with a cause: 401, 403, TLS and DNS failures last as long as they last
// and the mirror stays readable. Each failure goes to [Options.OnError], or to the log
// where that is not set, and is counted by [Reason].
//
// A resource that answers LIST with 404 for [Options.GoneAfter], having been served
// before, was removed (its CustomResourceDefinition was deleted): an empty list is
// committed, so that handlers get the deletions, and the reflector waits for it to
// come back.
//
// # Against client-go's Reflector
//
// What its fields are here:
//
//   - name, logger, resyncPeriod, ShouldResync, minWatchTimeout,
//     MaxInternalErrorRetryDuration, watchErrorHandler: [Options.Name],
//     [Options.Logger], [Options.Resync], [Options.ShouldResync],
//     [Options.MinWatchTimeout], [Options.ServerErrorsFor], [Options.OnError].
//   - WatchListPageSize: [Options.PageSize], which is a size and no more; whether to
//     page is decided as said above.
//   - store: the [Sink]. listerWatcher: the [Source]. useWatchList: [Options.Streaming].
//   - delayHandler, backoffManager, initConnBackoffManager: [Options.Backoff]; one for
//     lists and watches, because both go to the same server.
//   - paginatedResult, lastSyncResourceVersion: [Status.Paged] and [Status.Mark].
//     isLastSyncResourceVersionUnavailable is part of the list that is being made.
//   - maxWatchTimeout is always twice the minimum.
//   - typeDescription, expectedType, expectedGVK: none. The type is T; the kind is
//     checked by the Source, which alone sees it (object.ErrWrongKind).
//   - clock: none; tests use testing/synctest.
package reflector
