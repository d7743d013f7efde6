package metrics

import (
	"time"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/controller/shard"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/workqueue"
)

var leaderStatus = gauge("leader_election_master_status", "1 if this process holds the lease and may work.", "name")

var (
	shardSlots    = gauge("tarn_shard_slots", "Slots that this process works on.", "group")
	shardKeys     = gauge("tarn_shard_keys", "Keys in the slots that this process works on.", "group")
	shardMembers  = gauge("tarn_shard_members", "Members of the group that still renew their leases.", "group")
	shardWaiting  = gauge("tarn_shard_waiting_slots", "Slots that are to be handed over to this process.", "group")
	shardIdle     = longest("tarn_shard_idle_slots", "Slots that no member works on.", "group")
	shardIdleTime = counter("tarn_shard_idle_slot_seconds_total", "Time for which no member worked on a slot, added up over all slots.", "group")
	shardGained   = counter("tarn_shard_gained_slots_total", "Slots that this process started working on.", "group")
	shardReleased = counter("tarn_shard_released_slots_total", "Slots that this process stopped working on.", "group")
	shardExcess   = longest("tarn_shard_imbalance_ratio", "Slots of the member that has the most, relative to an equal share by weight.", "group")
)

func (s samples) shards(g shard.Status) {
	members := 0
	for _, m := range g.Members {
		if !m.Expired {
			members++
		}
	}
	s.add(shardSlots, float64(len(g.Slots)), g.Group)
	s.add(shardKeys, float64(g.Keys), g.Group)
	s.add(shardMembers, float64(members), g.Group)
	s.add(shardWaiting, float64(g.Waiting), g.Group)
	s.add(shardIdle, float64(g.Idle), g.Group)
	s.add(shardIdleTime, g.IdleTime.Seconds(), g.Group)
	s.add(shardGained, float64(g.Gained), g.Group)
	s.add(shardReleased, float64(g.Released), g.Group)
	s.add(shardExcess, g.Imbalance(), g.Group)
}

var (
	queueDepth      = gauge("workqueue_depth", "Items that wait in the queue. The priority is always empty.", "name", "controller", "priority")
	queueUnfinished = gauge("workqueue_unfinished_work_seconds", "Time since the items in progress were taken, added up.", "name", "controller")
	queueLongest    = longest("workqueue_longest_running_processor_seconds", "Time since the first of the items in progress was taken.", "name", "controller")
	queueProcessing = gauge("workqueue_processing", "Items in progress.", "name", "controller")
	queueDelayed    = gauge("workqueue_delayed", "Items that are added later: delayed or backing off.", "name", "controller")
)

func (s samples) queue(name string, q workqueue.Stats) {
	s.add(queueDepth, float64(q.Waiting+q.Dirty), name, name, "")
	s.add(queueUnfinished, q.Unfinished.Seconds(), name, name)
	s.add(queueLongest, q.Longest.Seconds(), name, name)
	s.add(queueProcessing, float64(q.Processing), name, name)
	s.add(queueDelayed, float64(q.Delayed), name, name)
}

var (
	controllerWorkers = gauge("controller_runtime_max_concurrent_reconciles", "Workers of the controller.", "controller")
	controllerActive  = gauge("controller_runtime_active_workers", "Workers that are reconciling.", "controller")
	controllerState   = gauge("tarn_controller_state", "1 for the controller's state, 0 for the others.", "controller", "state")
	controllerFenced  = gauge("tarn_controller_fenced", "1 if no reconcile may start because this process does not lead.", "controller")
	controllerFailing = gauge("tarn_controller_failing_keys", "Keys whose last reconcile failed, up to Options.Errors.", "controller")
	controllerGivenUp = counter("tarn_controller_given_up_total", "Reconciles after which the key was not retried: terminal errors, and errors at the limit of attempts.", "controller")
	controllerHeld    = counter("tarn_controller_held_total", "Times that a key was held back because a cache was older than this process's own write.", "controller")
	controllerHeldFor = longest("tarn_controller_held_seconds", "Time for which a key has been held back because a cache is older than this process's own write; of several keys the longest.", "controller")
	controllerSource  = counter("tarn_controller_source_failures_total", "Events that sources could not map to keys.", "controller")
)

var controllerStates = []controller.State{
	controller.Idle, controller.Starting, controller.Working, controller.Draining, controller.Cancelled,
}

func (s samples) controller(name string, c controller.Status) {
	s.add(controllerWorkers, float64(c.Workers), name)
	s.add(controllerActive, float64(len(c.Running)), name)
	for _, state := range controllerStates {
		s.add(controllerState, flag(c.State == state), name, state.String())
	}
	s.add(controllerFenced, flag(c.Fenced != nil), name)
	s.add(controllerFailing, float64(len(c.Failures)), name)
	s.add(controllerGivenUp, float64(c.GivenUp), name)
	s.add(controllerHeld, float64(c.Held), name)
	held := 0.0
	if len(c.HeldKeys) > 0 { // longest held first
		held = time.Since(c.HeldKeys[0].Since).Seconds()
	}
	s.add(controllerHeldFor, held, name)
	s.add(controllerSource, float64(c.SourceFailures), name)
	s.queue(name, c.Queue)
}

var (
	informerObjects       = gauge("tarn_informer_objects", "Objects in the mirror.", "informer")
	informerSynced        = every("tarn_informer_synced", "1 if everything that the informer covers has been listed.", "informer")
	informerLive          = every("tarn_informer_live", "1 if the informer is synced and all its watches are open.", "informer")
	informerPending       = gauge("tarn_informer_pending_deltas", "Changes that were received and are not in the mirror yet.", "informer")
	informerOldest        = longest("tarn_informer_pending_seconds", "Age of the oldest pending change.", "informer")
	informerLogged        = gauge("tarn_informer_logged_changes", "Changes that are kept for subscribers.", "informer")
	informerRetained      = gauge("tarn_informer_retained_versions", "Superseded versions that are kept for snapshots.", "informer")
	informerRevision      = counter("tarn_informer_transactions_total", "Batches that were applied to the mirror.", "informer")
	informerBad           = gauge("tarn_informer_quarantined_objects", "Objects that could not be decoded or transformed.", "informer")
	informerRefused       = counter("tarn_informer_refused_batches_total", "Batches with objects that the store rejected.", "informer")
	informerAudit         = gauge("tarn_informer_audit_differences", "Objects that the mirror and the server had in different versions at the latest audit. Not exported before the first.", "informer")
	informerAudited       = longest("tarn_informer_audit_timestamp_seconds", "Time of the latest audit.", "informer")
	informerPendingWrites = gauge("tarn_informer_pending_writes", "Writes of this process that are not in the mirror yet.", "informer")

	indexValues   = gauge("tarn_informer_index_values", "Different values of an index.", "informer", "index")
	indexFailures = counter("tarn_informer_index_failures_total", "Objects on which an index function failed.", "informer", "index")

	subscriberLag     = gauge("tarn_informer_subscriber_lag_changes", "Changes that a subscriber has not handled yet.", "informer", "subscriber")
	subscriberLagTime = longest("tarn_informer_subscriber_lag_seconds", "Age of the oldest change that a subscriber has not handled yet.", "informer", "subscriber")
	subscriberCalls   = counter("tarn_informer_subscriber_calls_total", "Calls of a subscriber.", "informer", "subscriber")
	subscriberBusy    = counter("tarn_informer_subscriber_busy_seconds_total", "Time that the calls of a subscriber took.", "informer", "subscriber")
	subscriberCaught  = counter("tarn_informer_subscriber_caught_up_total", "Times that a subscriber fell off the log and was caught up with a difference of snapshots.", "informer", "subscriber")
	subscriberPanics  = counter("tarn_informer_subscriber_panics_total", "Calls of a subscriber that panicked.", "informer", "subscriber")
)

func (s samples) informer(name string, inf informer.Status) {
	s.add(informerObjects, float64(inf.Store.Objects), name)
	s.add(informerSynced, flag(inf.Synced), name)
	s.add(informerLive, flag(inf.Live()), name)
	s.add(informerPending, float64(inf.Pending.Deltas+inf.Pending.InFlight), name)
	s.add(informerOldest, inf.Pending.Oldest.Seconds(), name)
	s.add(informerLogged, float64(inf.Logged), name)
	s.add(informerRetained, float64(inf.Store.Retained), name)
	s.add(informerRevision, float64(inf.Store.Revision), name)
	s.add(informerBad, float64(len(inf.Quarantine)), name)
	s.add(informerRefused, float64(inf.Refused), name)
	s.add(informerPendingWrites, float64(inf.PendingWrites), name)
	if a := inf.Audit; a != nil {
		s.add(informerAudit, float64(a.Count()), name)
		s.timestamp(informerAudited, a.Time, name)
	}
	for _, x := range inf.Store.Indexes {
		s.add(indexValues, float64(x.Values), name, x.Name)
		s.add(indexFailures, float64(x.Failures), name, x.Name)
	}
	for _, sub := range inf.Subscribers {
		s.add(subscriberLag, float64(sub.Lag), name, sub.Name)
		s.add(subscriberLagTime, sub.LagTime.Seconds(), name, sub.Name)
		s.add(subscriberCalls, float64(sub.Calls), name, sub.Name)
		s.add(subscriberBusy, sub.Busy.Seconds(), name, sub.Name)
		s.add(subscriberCaught, float64(sub.CaughtUp), name, sub.Name)
		s.add(subscriberPanics, float64(sub.Panics), name, sub.Name)
	}
	for _, src := range inf.Sources {
		s.reflector(name, string(src.Scope), src.Reflector)
	}
}

// The namespace is empty for a reflector that covers everything.
var (
	reflectorState     = gauge("tarn_reflector_state", "1 for the reflector's state, 0 for the others.", "informer", "namespace", "state")
	reflectorConnected = every("tarn_reflector_connected", "1 if a watch is open.", "informer", "namespace")
	reflectorLists     = counter("tarn_reflector_lists_total", "Complete lists, including streaming ones.", "informer", "namespace")
	reflectorStreamed  = counter("tarn_reflector_streaming_lists_total", "Complete streaming lists.", "informer", "namespace")
	reflectorItems     = counter("tarn_reflector_items_total", "Items of complete lists.", "informer", "namespace")
	reflectorWatches   = counter("tarn_reflector_watches_total", "Watches that were opened.", "informer", "namespace")
	reflectorEnded     = counter("tarn_reflector_requests_ended_total", "Requests that ended, by reason; closed is the normal one.", "informer", "namespace", "reason")
	reflectorEvents    = counter("tarn_reflector_events_total", "Events other than bookmarks, including initial ones.", "informer", "namespace")
	reflectorBookmarks = counter("tarn_reflector_bookmarks_total", "Bookmarks.", "informer", "namespace")
	reflectorStale     = counter("tarn_reflector_stale_events_total", "Events that were dropped because the mirror was newer.", "informer", "namespace")
	reflectorRewinds   = counter("tarn_reflector_rewinds_total", "Times that the server was restored to an earlier state.", "informer", "namespace")
	reflectorWaits     = counter("tarn_reflector_backoffs_total", "Delays after a failure.", "informer", "namespace")
	reflectorLastEvent = longest("tarn_reflector_last_event_timestamp_seconds", "Time of the last event of a watch.", "informer", "namespace")
	reflectorLastList  = longest("tarn_reflector_last_list_timestamp_seconds", "Time of the last complete list.", "informer", "namespace")
)

// reflectorStates are the states as labels, written as the reasons are.
var reflectorStates = map[reflector.State]string{
	reflector.Idle: "idle", reflector.Listing: "listing", reflector.Streaming: "streaming",
	reflector.Watching: "watching", reflector.BackingOff: "backing-off", reflector.Stopped: "stopped",
}

func (s samples) reflector(name, namespace string, r reflector.Status) {
	for state, label := range reflectorStates {
		s.add(reflectorState, flag(r.State == state), name, namespace, label)
	}
	s.add(reflectorConnected, flag(r.Connected), name, namespace)
	n := r.Counts
	s.add(reflectorLists, float64(n.Lists), name, namespace)
	s.add(reflectorStreamed, float64(n.Streamed), name, namespace)
	s.add(reflectorItems, float64(n.Items), name, namespace)
	s.add(reflectorWatches, float64(n.Watches), name, namespace)
	for reason, count := range n.Ended {
		s.add(reflectorEnded, float64(count), name, namespace, string(reason))
	}
	s.add(reflectorEvents, float64(n.Events), name, namespace)
	s.add(reflectorBookmarks, float64(n.Bookmarks), name, namespace)
	s.add(reflectorStale, float64(n.Stale), name, namespace)
	s.add(reflectorRewinds, float64(n.Rewinds), name, namespace)
	s.add(reflectorWaits, float64(n.Waits), name, namespace)
	s.timestamp(reflectorLastEvent, r.LastEvent, name, namespace)
	s.timestamp(reflectorLastList, r.LastList, name, namespace)
}

// timestamp omits the zero time, which would be exported as a date before 1970.
func (s samples) timestamp(f *family, t time.Time, labels ...string) {
	if !t.IsZero() {
		s.add(f, float64(t.UnixNano())/1e9, labels...)
	}
}
