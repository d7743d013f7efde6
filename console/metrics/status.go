package metrics

import (
	"math"
	"time"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/controller/shard"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/workqueue"
)

// figure is a metric and its value in a status of type S; NaN is not exported.
type figure[S any] struct {
	family *family
	value  func(*S) float64
}

// add adds the figures of a status.
func add[S any](s samples, all []figure[S], status S, labels ...string) {
	for i := range all {
		if v := all[i].value(&status); !math.IsNaN(v) {
			s.add(all[i].family, v, labels...)
		}
	}
}

// timestamp returns NaN for the zero time, which would be exported as a date before 1970.
func timestamp(t time.Time) float64 {
	if t.IsZero() {
		return math.NaN()
	}
	return float64(t.UnixNano()) / 1e9
}

var leaderStatus = gauge("leader_election_master_status", "1 if this process holds the lease and may work.", "name")

var shardFigures = []figure[shard.Status]{
	{gauge("tarn_shard_slots", "Slots that this process works on.", "group"), func(g *shard.Status) float64 { return float64(len(g.Slots)) }},
	{gauge("tarn_shard_keys", "Keys in the slots that this process works on.", "group"), func(g *shard.Status) float64 { return float64(g.Keys) }},
	{gauge("tarn_shard_members", "Members of the group that still renew their leases.", "group"), func(g *shard.Status) float64 { return renewed(g) }},
	{gauge("tarn_shard_waiting_slots", "Slots that are to be handed over to this process.", "group"), func(g *shard.Status) float64 { return float64(g.Waiting) }},
	{longest("tarn_shard_idle_slots", "Slots that no member works on.", "group"), func(g *shard.Status) float64 { return float64(g.Idle) }},
	{counter("tarn_shard_idle_slot_seconds_total", "Time for which no member worked on a slot, added up over all slots.", "group"), func(g *shard.Status) float64 { return g.IdleTime.Seconds() }},
	{counter("tarn_shard_gained_slots_total", "Slots that this process started working on.", "group"), func(g *shard.Status) float64 { return float64(g.Gained) }},
	{counter("tarn_shard_released_slots_total", "Slots that this process stopped working on.", "group"), func(g *shard.Status) float64 { return float64(g.Released) }},
	{longest("tarn_shard_imbalance_ratio", "Slots of the member that has the most, relative to an equal share by weight.", "group"), func(g *shard.Status) float64 { return g.Imbalance() }},
}

// renewed counts the members whose leases have not expired.
func renewed(g *shard.Status) (n float64) {
	for _, m := range g.Members {
		if !m.Expired {
			n++
		}
	}
	return n
}

var queueDepth = gauge("workqueue_depth", "Items that wait in the queue. The priority is always empty.", "name", "controller", "priority")

var queueFigures = []figure[workqueue.Stats]{
	{gauge("workqueue_unfinished_work_seconds", "Time since the items in progress were taken, added up.", "name", "controller"), func(q *workqueue.Stats) float64 { return q.Unfinished.Seconds() }},
	{longest("workqueue_longest_running_processor_seconds", "Time since the first of the items in progress was taken.", "name", "controller"), func(q *workqueue.Stats) float64 { return q.Longest.Seconds() }},
	{gauge("workqueue_processing", "Items in progress.", "name", "controller"), func(q *workqueue.Stats) float64 { return float64(q.Processing) }},
	{gauge("workqueue_delayed", "Items that are added later: delayed or backing off.", "name", "controller"), func(q *workqueue.Stats) float64 { return float64(q.Delayed) }},
}

func (s samples) queue(name string, q workqueue.Stats) {
	s.add(queueDepth, float64(q.Waiting+q.Dirty), name, name, "")
	add(s, queueFigures, q, name, name)
}

var controllerState = gauge("tarn_controller_state", "1 for the controller's state, 0 for the others.", "controller", "state")

var controllerFigures = []figure[controller.Status]{
	{gauge("controller_runtime_max_concurrent_reconciles", "Workers of the controller.", "controller"), func(c *controller.Status) float64 { return float64(c.Workers) }},
	{gauge("controller_runtime_active_workers", "Workers that are reconciling.", "controller"), func(c *controller.Status) float64 { return float64(len(c.Running)) }},
	{gauge("tarn_controller_fenced", "1 if no reconcile may start because this process does not lead.", "controller"), func(c *controller.Status) float64 { return flag(c.Fenced != nil) }},
	{gauge("tarn_controller_failing_keys", "Keys whose last reconcile failed, up to Options.Errors.", "controller"), func(c *controller.Status) float64 { return float64(len(c.Failures)) }},
	{counter("tarn_controller_given_up_total", "Reconciles after which the key was not retried: terminal errors, and errors at the limit of attempts.", "controller"), func(c *controller.Status) float64 { return float64(c.GivenUp) }},
	{counter("tarn_controller_held_total", "Times that a key was held back because a cache was older than this process's own write.", "controller"), func(c *controller.Status) float64 { return float64(c.Held) }},
	{longest("tarn_controller_held_seconds", "Time for which a key has been held back because a cache is older than this process's own write; of several keys the longest.", "controller"), func(c *controller.Status) float64 { return heldFor(c) }},
	{counter("tarn_controller_source_failures_total", "Events that sources could not map to keys.", "controller"), func(c *controller.Status) float64 { return float64(c.SourceFailures) }},
}

// heldFor returns for how long the key has been held back that waits longest, in seconds.
func heldFor(c *controller.Status) float64 {
	if len(c.HeldKeys) == 0 {
		return 0
	}
	return time.Since(c.HeldKeys[0].Since).Seconds()
}

var controllerStates = []controller.State{
	controller.Idle, controller.Starting, controller.Working, controller.Draining, controller.Cancelled,
}

func (s samples) controller(name string, c controller.Status) {
	for _, state := range controllerStates {
		s.add(controllerState, flag(c.State == state), name, state.String())
	}
	add(s, controllerFigures, c, name)
	s.queue(name, c.Queue)
}

var informerFigures = []figure[informer.Status]{
	{gauge("tarn_informer_objects", "Objects in the mirror.", "informer"), func(inf *informer.Status) float64 { return float64(inf.Store.Objects) }},
	{every("tarn_informer_synced", "1 if everything that the informer covers has been listed.", "informer"), func(inf *informer.Status) float64 { return flag(inf.Synced) }},
	{every("tarn_informer_live", "1 if the informer is synced and all its watches are open.", "informer"), func(inf *informer.Status) float64 { return flag(inf.Live()) }},
	{gauge("tarn_informer_pending_deltas", "Changes that were received and are not in the mirror yet.", "informer"), func(inf *informer.Status) float64 { return float64(inf.Pending.Deltas + inf.Pending.InFlight) }},
	{longest("tarn_informer_pending_seconds", "Age of the oldest pending change.", "informer"), func(inf *informer.Status) float64 { return inf.Pending.Oldest.Seconds() }},
	{gauge("tarn_informer_logged_changes", "Changes that are kept for subscribers.", "informer"), func(inf *informer.Status) float64 { return float64(inf.Logged) }},
	{gauge("tarn_informer_retained_versions", "Superseded versions that are kept for snapshots.", "informer"), func(inf *informer.Status) float64 { return float64(inf.Store.Retained) }},
	{counter("tarn_informer_transactions_total", "Batches that were applied to the mirror.", "informer"), func(inf *informer.Status) float64 { return float64(inf.Store.Revision) }},
	{gauge("tarn_informer_quarantined_objects", "Objects that could not be decoded or transformed.", "informer"), func(inf *informer.Status) float64 { return float64(len(inf.Quarantine)) }},
	{counter("tarn_informer_refused_batches_total", "Batches with objects that the store rejected.", "informer"), func(inf *informer.Status) float64 { return float64(inf.Refused) }},
	{gauge("tarn_informer_pending_writes", "Writes of this process that are not in the mirror yet.", "informer"), func(inf *informer.Status) float64 { return float64(inf.PendingWrites) }},
}

var auditFigures = []figure[informer.Audit]{
	{gauge("tarn_informer_audit_differences", "Objects that the mirror and the server had in different versions at the latest audit. Not exported before the first.", "informer"), func(a *informer.Audit) float64 { return float64(a.Count()) }},
	{longest("tarn_informer_audit_timestamp_seconds", "Time of the latest audit.", "informer"), func(a *informer.Audit) float64 { return timestamp(a.Time) }},
}

var indexFigures = []figure[store.IndexStats]{
	{gauge("tarn_informer_index_values", "Different values of an index.", "informer", "index"), func(x *store.IndexStats) float64 { return float64(x.Values) }},
	{counter("tarn_informer_index_failures_total", "Objects on which an index function failed.", "informer", "index"), func(x *store.IndexStats) float64 { return float64(x.Failures) }},
}

var subscriberFigures = []figure[informer.SubscriptionStatus]{
	{gauge("tarn_informer_subscriber_lag_changes", "Changes that a subscriber has not handled yet.", "informer", "subscriber"), func(sub *informer.SubscriptionStatus) float64 { return float64(sub.Lag) }},
	{longest("tarn_informer_subscriber_lag_seconds", "Age of the oldest change that a subscriber has not handled yet.", "informer", "subscriber"), func(sub *informer.SubscriptionStatus) float64 { return sub.LagTime.Seconds() }},
	{counter("tarn_informer_subscriber_calls_total", "Calls of a subscriber.", "informer", "subscriber"), func(sub *informer.SubscriptionStatus) float64 { return float64(sub.Calls) }},
	{counter("tarn_informer_subscriber_busy_seconds_total", "Time that the calls of a subscriber took.", "informer", "subscriber"), func(sub *informer.SubscriptionStatus) float64 { return sub.Busy.Seconds() }},
	{counter("tarn_informer_subscriber_caught_up_total", "Times that a subscriber fell off the log and was caught up with a difference of snapshots.", "informer", "subscriber"), func(sub *informer.SubscriptionStatus) float64 { return float64(sub.CaughtUp) }},
	{counter("tarn_informer_subscriber_panics_total", "Calls of a subscriber that panicked.", "informer", "subscriber"), func(sub *informer.SubscriptionStatus) float64 { return float64(sub.Panics) }},
}

func (s samples) informer(name string, inf informer.Status) {
	add(s, informerFigures, inf, name)
	if inf.Audit != nil {
		add(s, auditFigures, *inf.Audit, name)
	}
	for _, x := range inf.Store.Indexes {
		add(s, indexFigures, x, name, x.Name)
	}
	for _, sub := range inf.Subscribers {
		add(s, subscriberFigures, sub, name, sub.Name)
	}
	for _, src := range inf.Sources {
		s.reflector(name, string(src.Scope), src.Reflector)
	}
}

var (
	reflectorState = gauge("tarn_reflector_state", "1 for the reflector's state, 0 for the others.", "informer", "namespace", "state")
	reflectorEnded = counter("tarn_reflector_requests_ended_total", "Requests that ended, by reason; closed is the normal one.", "informer", "namespace", "reason")
)

// The namespace is empty for a reflector that covers everything.
var reflectorFigures = []figure[reflector.Status]{
	{every("tarn_reflector_connected", "1 if a watch is open.", "informer", "namespace"), func(r *reflector.Status) float64 { return flag(r.Connected) }},
	{counter("tarn_reflector_lists_total", "Complete lists, including streaming ones.", "informer", "namespace"), func(r *reflector.Status) float64 { return float64(r.Counts.Lists) }},
	{counter("tarn_reflector_streaming_lists_total", "Complete streaming lists.", "informer", "namespace"), func(r *reflector.Status) float64 { return float64(r.Counts.Streamed) }},
	{counter("tarn_reflector_items_total", "Items of complete lists.", "informer", "namespace"), func(r *reflector.Status) float64 { return float64(r.Counts.Items) }},
	{counter("tarn_reflector_watches_total", "Watches that were opened.", "informer", "namespace"), func(r *reflector.Status) float64 { return float64(r.Counts.Watches) }},
	{counter("tarn_reflector_events_total", "Events other than bookmarks, including initial ones.", "informer", "namespace"), func(r *reflector.Status) float64 { return float64(r.Counts.Events) }},
	{counter("tarn_reflector_bookmarks_total", "Bookmarks.", "informer", "namespace"), func(r *reflector.Status) float64 { return float64(r.Counts.Bookmarks) }},
	{counter("tarn_reflector_stale_events_total", "Events that were dropped because the mirror was newer.", "informer", "namespace"), func(r *reflector.Status) float64 { return float64(r.Counts.Stale) }},
	{counter("tarn_reflector_rewinds_total", "Times that the server was restored to an earlier state.", "informer", "namespace"), func(r *reflector.Status) float64 { return float64(r.Counts.Rewinds) }},
	{counter("tarn_reflector_backoffs_total", "Delays after a failure.", "informer", "namespace"), func(r *reflector.Status) float64 { return float64(r.Counts.Waits) }},
	{longest("tarn_reflector_last_event_timestamp_seconds", "Time of the last event of a watch.", "informer", "namespace"), func(r *reflector.Status) float64 { return timestamp(r.LastEvent) }},
	{longest("tarn_reflector_last_list_timestamp_seconds", "Time of the last complete list.", "informer", "namespace"), func(r *reflector.Status) float64 { return timestamp(r.LastList) }},
}

// reflectorStates are the states as labels, written as the reasons are.
var reflectorStates = map[reflector.State]string{
	reflector.Idle: "idle", reflector.Listing: "listing", reflector.Streaming: "streaming",
	reflector.Watching: "watching", reflector.BackingOff: "backing-off", reflector.Stopped: "stopped",
}

func (s samples) reflector(name, namespace string, r reflector.Status) {
	for state, label := range reflectorStates {
		s.add(reflectorState, flag(r.State == state), name, namespace, label)
	}
	for reason, count := range r.Counts.Ended {
		s.add(reflectorEnded, float64(count), name, namespace, string(reason))
	}
	add(s, reflectorFigures, r, name, namespace)
}
