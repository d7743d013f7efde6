package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarnproject/tarn/informer"
)

// What is read from an informer's Status.
var (
	informerDescs []*prometheus.Desc
	informerDesc  = family(&informerDescs)

	informerObjects   = informerDesc("tarn_informer_objects", "Objects in the mirror.", "informer")
	informerSynced    = informerDesc("tarn_informer_synced", "1 if all that is to be mirrored has been listed.", "informer")
	informerLive      = informerDesc("tarn_informer_live", "1 if, moreover, changes arrive as they happen.", "informer")
	informerPending   = informerDesc("tarn_informer_pending_deltas", "Changes that were received and are not mirrored yet.", "informer")
	informerOldest    = informerDesc("tarn_informer_pending_seconds", "How long the oldest of them has waited.", "informer")
	informerLogged    = informerDesc("tarn_informer_logged_changes", "Changes that are kept for subscribers.", "informer")
	informerRetained  = informerDesc("tarn_informer_retained_versions", "Superseded versions that are kept for snapshots.", "informer")
	informerRevision  = informerDesc("tarn_informer_transactions_total", "Batches that were applied to the mirror.", "informer")
	informerBad       = informerDesc("tarn_informer_quarantined_objects", "Objects that could not be read.", "informer")
	informerRefused   = informerDesc("tarn_informer_refused_batches_total", "Batches with objects that the store could not hold.", "informer")
	informerUnseen    = informerDesc("tarn_informer_unseen_writes", "Writes of this process that the mirror has not been seen to show.", "informer")
	indexValues       = informerDesc("tarn_informer_index_values", "Different values of an index.", "informer", "index")
	indexFailures     = informerDesc("tarn_informer_index_failures_total", "Objects on which an index function failed.", "informer", "index")
	subscriberLag     = informerDesc("tarn_informer_subscriber_lag_changes", "Changes that a subscriber has yet to handle.", "informer", "subscriber")
	subscriberLagTime = informerDesc("tarn_informer_subscriber_lag_seconds", "How long the oldest of them has waited.", "informer", "subscriber")
	subscriberCalls   = informerDesc("tarn_informer_subscriber_calls_total", "Calls of a subscriber.", "informer", "subscriber")
	subscriberCaught  = informerDesc("tarn_informer_subscriber_caught_up_total", "Times that a subscriber fell off the log and was caught up with a difference.", "informer", "subscriber")
	subscriberPanics  = informerDesc("tarn_informer_subscriber_panics_total", "Calls of a subscriber that panicked.", "informer", "subscriber")
)

func collectInformer(to chan<- prometheus.Metric, name string, s informer.Status) {
	gauge(to, informerObjects, float64(s.Store.Objects), name)
	gauge(to, informerSynced, flag(s.Synced), name)
	gauge(to, informerLive, flag(s.Live()), name)
	gauge(to, informerPending, float64(s.Pending.Deltas+s.Pending.InFlight), name)
	gauge(to, informerOldest, s.Pending.Oldest.Seconds(), name)
	gauge(to, informerLogged, float64(s.Logged), name)
	gauge(to, informerRetained, float64(s.Store.Retained), name)
	counter(to, informerRevision, float64(s.Store.Revision), name)
	gauge(to, informerBad, float64(len(s.Quarantine)), name)
	counter(to, informerRefused, float64(s.Refused), name)
	gauge(to, informerUnseen, float64(s.UnseenWrites), name)

	// Names of indexes and subscribers are the user's and need not differ.
	indexes := named[informerIndex]{}
	for _, x := range s.Store.Indexes {
		sum := indexes.of(x.Name)
		sum.values += x.Values
		sum.failures += x.Failures
	}
	for index, sum := range indexes {
		gauge(to, indexValues, float64(sum.values), name, index)
		counter(to, indexFailures, float64(sum.failures), name, index)
	}
	subscribers := named[informer.SubscriptionStatus]{}
	for _, sub := range s.Subscribers {
		sum := subscribers.of(sub.Name)
		sum.Lag += sub.Lag
		sum.LagTime = max(sum.LagTime, sub.LagTime)
		sum.Calls += sub.Calls
		sum.CaughtUp += sub.CaughtUp
		sum.Panics += sub.Panics
	}
	for sub, sum := range subscribers {
		gauge(to, subscriberLag, float64(sum.Lag), name, sub)
		gauge(to, subscriberLagTime, sum.LagTime.Seconds(), name, sub)
		counter(to, subscriberCalls, float64(sum.Calls), name, sub)
		counter(to, subscriberCaught, float64(sum.CaughtUp), name, sub)
		counter(to, subscriberPanics, float64(sum.Panics), name, sub)
	}
	for _, src := range s.Sources {
		collectReflector(to, name, string(src.Scope), src.Reflector)
	}
}

type informerIndex struct {
	values   int
	failures uint64
}

// named adds up the figures of those with the same name.
type named[V any] map[string]*V

func (n named[V]) of(name string) *V {
	v, ok := n[name]
	if !ok {
		v = new(V)
		n[name] = v
	}
	return v
}
