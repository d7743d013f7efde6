package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarnproject/tarn/reflector"
)

// What is read from the Status of an informer's reflectors. The namespace is empty for
// one that covers everything.
var (
	reflectorDescs []*prometheus.Desc
	reflectorDesc  = family(&reflectorDescs)

	reflectorState     = reflectorDesc("tarn_reflector_state", "1 for the state in which the reflector is, 0 for the others.", "informer", "namespace", "state")
	reflectorConnected = reflectorDesc("tarn_reflector_connected", "1 if a stream is open.", "informer", "namespace")
	reflectorLists     = reflectorDesc("tarn_reflector_lists_total", "Complete lists, streaming ones included.", "informer", "namespace")
	reflectorStreamed  = reflectorDesc("tarn_reflector_streaming_lists_total", "Complete streaming lists.", "informer", "namespace")
	reflectorItems     = reflectorDesc("tarn_reflector_items_total", "Items of complete lists.", "informer", "namespace")
	reflectorWatches   = reflectorDesc("tarn_reflector_watches_total", "Streams that were opened.", "informer", "namespace")
	reflectorEnded     = reflectorDesc("tarn_reflector_requests_ended_total", "Requests that ended, by the reason; closed is the normal one.", "informer", "namespace", "reason")
	reflectorEvents    = reflectorDesc("tarn_reflector_events_total", "Events other than bookmarks, initial ones included.", "informer", "namespace")
	reflectorBookmarks = reflectorDesc("tarn_reflector_bookmarks_total", "Bookmarks.", "informer", "namespace")
	reflectorStale     = reflectorDesc("tarn_reflector_stale_events_total", "Events that were dropped because they were no news.", "informer", "namespace")
	reflectorRewinds   = reflectorDesc("tarn_reflector_rewinds_total", "Times that the server's history was restored to an earlier state.", "informer", "namespace")
	reflectorWaits     = reflectorDesc("tarn_reflector_backoffs_total", "Waits after a failure.", "informer", "namespace")
	reflectorLastEvent = reflectorDesc("tarn_reflector_last_event_timestamp_seconds", "When something last came from a watch.", "informer", "namespace")
	reflectorLastList  = reflectorDesc("tarn_reflector_last_list_timestamp_seconds", "When a list was last complete.", "informer", "namespace")
)

// reflectorStates are the states as labels, written as the reasons are.
var reflectorStates = map[reflector.State]string{
	reflector.Idle: "idle", reflector.Listing: "listing", reflector.Streaming: "streaming",
	reflector.Watching: "watching", reflector.BackingOff: "backing-off", reflector.Stopped: "stopped",
}

func collectReflector(to chan<- prometheus.Metric, name, namespace string, s reflector.Status) {
	for state, label := range reflectorStates {
		gauge(to, reflectorState, flag(s.State == state), name, namespace, label)
	}
	gauge(to, reflectorConnected, flag(s.Connected), name, namespace)
	n := s.Counts
	counter(to, reflectorLists, float64(n.Lists), name, namespace)
	counter(to, reflectorStreamed, float64(n.Streamed), name, namespace)
	counter(to, reflectorItems, float64(n.Items), name, namespace)
	counter(to, reflectorWatches, float64(n.Watches), name, namespace)
	for reason, count := range n.Ended {
		counter(to, reflectorEnded, float64(count), name, namespace, string(reason))
	}
	counter(to, reflectorEvents, float64(n.Events), name, namespace)
	counter(to, reflectorBookmarks, float64(n.Bookmarks), name, namespace)
	counter(to, reflectorStale, float64(n.Stale), name, namespace)
	counter(to, reflectorRewinds, float64(n.Rewinds), name, namespace)
	counter(to, reflectorWaits, float64(n.Waits), name, namespace)
	timestamp(to, reflectorLastEvent, s.LastEvent, name, namespace)
	timestamp(to, reflectorLastList, s.LastList, name, namespace)
}

// timestamp omits the zero time, which would be exported as a date before 1970.
func timestamp(to chan<- prometheus.Metric, d *prometheus.Desc, t time.Time, labels ...string) {
	if !t.IsZero() {
		gauge(to, d, float64(t.UnixNano())/1e9, labels...)
	}
}
