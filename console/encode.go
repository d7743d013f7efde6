package console

import (
	"fmt"
	"time"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/controller/shard"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/internal/oneline"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/status"
)

// The types below are the JSON form of a [Status]: times are text, durations are seconds and errors
// are one line.
type (
	statusJSON struct {
		Server      string           `json:"server"`
		Time        string           `json:"time"`
		StartedAt   string           `json:"startedAt,omitempty"`
		Running     bool             `json:"running"`
		Stopped     bool             `json:"stopped"`
		Listing     int              `json:"listing"`
		Lists       int              `json:"lists"`
		Leader      *leaderJSON      `json:"leader,omitempty"`
		Shards      *shardsJSON      `json:"shards,omitempty"`
		Problems    []Problem        `json:"problems"`
		Mirrors     []mirrorJSON     `json:"mirrors"`
		Controllers []controllerJSON `json:"controllers"`
	}
	leaderJSON struct {
		Lease       string  `json:"lease"`
		Identity    string  `json:"identity"`
		Leading     bool    `json:"leading"`
		Holder      string  `json:"holder,omitempty"`
		LeftSeconds float64 `json:"leftSeconds"`
		Terms       uint64  `json:"terms"`
	}
	shardsJSON struct {
		Group       string       `json:"group"`
		Member      string       `json:"member"`
		Active      bool         `json:"active"`
		Complete    bool         `json:"complete"`
		Total       int          `json:"total"`
		Slots       int          `json:"slots"`
		Keys        int          `json:"keys"`
		Draining    int          `json:"draining"`
		Waiting     int          `json:"waiting"`
		Idle        int          `json:"idle"`
		IdleSeconds float64      `json:"idleSeconds"`
		Gained      uint64       `json:"gained"`
		Released    uint64       `json:"released"`
		Imbalance   float64      `json:"imbalance"`
		Members     []memberJSON `json:"members"`
	}
	memberJSON struct {
		Name    string `json:"name"`
		Weight  int    `json:"weight"`
		Slots   int    `json:"slots"`
		Share   int    `json:"share"`
		Keys    int    `json:"keys"`
		Ready   bool   `json:"ready"`
		Leaving bool   `json:"leaving"`
		Expired bool   `json:"expired"`
	}
	resourceJSON struct {
		Group      string `json:"group"`
		Version    string `json:"version"`
		Resource   string `json:"resource"`
		Kind       string `json:"kind"`
		Namespaced bool   `json:"namespaced"`
	}
	mirrorJSON struct {
		Name          string            `json:"name"`
		Resource      resourceJSON      `json:"resource"`
		Form          status.Form       `json:"form"`
		Compact       bool              `json:"compact"`
		Namespaces    []string          `json:"namespaces,omitempty"`
		Labels        string            `json:"labels,omitempty"`
		Fields        string            `json:"fields,omitempty"`
		Dropped       []string          `json:"dropped,omitempty"`
		Masked        []string          `json:"masked,omitempty"`
		Handles       []string          `json:"handles,omitempty"`
		History       int               `json:"history"`
		State         status.State      `json:"state"`
		Cause         string            `json:"cause,omitempty"`
		Synced        bool              `json:"synced"`
		Objects       int               `json:"objects"`
		Bytes         int64             `json:"bytes"`
		Version       string            `json:"version,omitempty"`
		Revision      uint64            `json:"revision"`
		Retained      int               `json:"retained"`
		Indexes       []indexJSON       `json:"indexes"`
		Sources       []sourceJSON      `json:"sources"`
		Pending       pendingJSON       `json:"pending"`
		Log           int               `json:"log"`
		Subscribers   []subscriberJSON  `json:"subscribers"`
		Quarantined   []quarantinedJSON `json:"quarantined"`
		Refused       uint64            `json:"refused"`
		LastRefused   string            `json:"lastRefused,omitempty"`
		PendingWrites int               `json:"pendingWrites"`
		Events        int64             `json:"eventsTotal"`
	}
	indexJSON struct {
		Name     string `json:"name"`
		Values   int    `json:"values"`
		Failures uint64 `json:"failures"`
	}
	sourceJSON struct {
		Scope      string           `json:"scope,omitempty"`
		State      string           `json:"state"`
		Since      string           `json:"since,omitempty"`
		Until      string           `json:"until,omitempty"`
		Page       int              `json:"page,omitempty"`
		Cause      string           `json:"cause,omitempty"`
		Listed     bool             `json:"listed"`
		Connected  bool             `json:"connected"`
		Version    string           `json:"version,omitempty"`
		LastEvent  string           `json:"lastEvent,omitempty"`
		LastList   string           `json:"lastList,omitempty"`
		LastError  string           `json:"lastError,omitempty"`
		LastErrAt  string           `json:"lastErrorAt,omitempty"`
		Lists      int64            `json:"lists"`
		Watches    int64            `json:"watches"`
		Reconnects int64            `json:"reconnects"`
		Events     int64            `json:"events"`
		Bookmarks  int64            `json:"bookmarks"`
		Errors     int64            `json:"errors"`
		Streaming  bool             `json:"streaming"`
		Reasons    map[string]int64 `json:"reasons,omitempty"`
	}
	pendingJSON struct {
		Changes       int     `json:"changes"`
		InFlight      int     `json:"inFlight"`
		OldestSeconds float64 `json:"oldestSeconds"`
	}
	subscriberJSON struct {
		Name       string  `json:"name"`
		Synced     bool    `json:"synced"`
		Lag        int     `json:"lag"`
		LagSeconds float64 `json:"lagSeconds"`
		LastCall   string  `json:"lastCall,omitempty"`
		Calls      uint64  `json:"calls"`
		Busy       float64 `json:"busySeconds"`
		CaughtUp   uint64  `json:"caughtUp"`
		Panics     uint64  `json:"panics"`
		LastPanic  string  `json:"lastPanic,omitempty"`
	}
	quarantinedJSON struct {
		Key     string `json:"key"`
		Version string `json:"version,omitempty"`
		Cause   string `json:"cause"`
		Since   string `json:"since"`
		Count   int    `json:"count"`
	}
	controllerJSON struct {
		Name           string            `json:"name"`
		State          string            `json:"state"`
		Cause          string            `json:"cause,omitempty"`
		Fenced         string            `json:"fenced,omitempty"`
		Paused         bool              `json:"paused"`
		Workers        int               `json:"workers"`
		Queue          queueJSON         `json:"queue"`
		Longest        *runningJSON      `json:"longest,omitempty"`
		Reconciles     uint64            `json:"reconciles"`
		Outcomes       map[string]uint64 `json:"outcomes"`
		GivenUp        uint64            `json:"givenUp"`
		HeldTotal      uint64            `json:"heldTotal"`
		SourceFailures uint64            `json:"sourceFailures"`
		Latency        latencyJSON       `json:"latency"`
		Failures       []failureJSON     `json:"failures"`
		MoreFailures   bool              `json:"moreFailures"`
		Failing        int               `json:"failing"`
		Keys           int               `json:"keys"`
		Held           []heldJSON        `json:"held"`
		Left           int               `json:"left"`
	}
	queueJSON struct {
		Waiting        int     `json:"waiting"`
		Dirty          int     `json:"dirty"`
		Processing     int     `json:"processing"`
		Delayed        int     `json:"delayed"`
		Adds           uint64  `json:"adds"`
		Retries        uint64  `json:"retries"`
		LongestSeconds float64 `json:"longestSeconds"`
	}
	runningJSON struct {
		Key     string  `json:"key"`
		Seconds float64 `json:"seconds"`
		Attempt int     `json:"attempt"`
	}
	latencyJSON struct {
		Count uint64  `json:"count"`
		Mean  float64 `json:"mean"`
		P50   float64 `json:"p50"`
		P99   float64 `json:"p99"`
		Max   float64 `json:"max"`
	}
	failureJSON struct {
		Key     string `json:"key"`
		Error   string `json:"error"`
		Alike   string `json:"alike"`
		Attempt int    `json:"attempt"`
		At      string `json:"at"`
	}
	heldJSON struct {
		Key     string `json:"key"`
		Since   string `json:"since"`
		Retries int    `json:"retries"`
		Cause   string `json:"cause"`
	}
)

// stamp formats a time with milliseconds; "" for none.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// oneLine returns an error's text on one line; "" for none.
func oneLine(err error) string {
	if err == nil {
		return ""
	}
	return oneline.Of(err.Error())
}

// each encodes the elements of a list, which is never null.
func each[F, T any](from []F, encode func(F) T) []T {
	to := make([]T, len(from))
	for i := range from {
		to[i] = encode(from[i])
	}
	return to
}

// encodeStatus encodes a status as docs/operating/console.md describes it.
func encodeStatus(s Status) statusJSON {
	out := statusJSON{
		Server: s.Server, Time: stamp(s.Time), StartedAt: stamp(s.Started), Running: s.Running, Stopped: s.Stopped, Listing: s.Listing, Lists: s.Lists,
		Problems: append([]Problem{}, Problems(s)...), Mirrors: each(s.Mirrors, encodeMirror), Controllers: each(s.Controllers, func(c controller.Status) controllerJSON { return encodeController(c, s.Time) }),
	}
	if l := s.Leader; l != nil {
		out.Leader = &leaderJSON{l.Lease, l.Identity, l.Leading, l.Leader, l.Left.Seconds(), l.Terms}
	}
	if g := s.Shards; g != nil {
		out.Shards = &shardsJSON{
			Group: g.Group, Member: g.Member, Active: g.Active, Complete: g.Complete, Total: shard.Slots, Slots: len(g.Slots), Keys: g.Keys, Draining: len(g.Draining),
			Waiting: g.Waiting, Idle: g.Idle, IdleSeconds: g.IdleTime.Seconds(), Gained: g.Gained, Released: g.Released, Imbalance: g.Imbalance(),
			Members: each(g.Members, func(m shard.MemberStatus) memberJSON { return memberJSON(m) }),
		}
	}
	return out
}

func encodeMirror(m MirrorStatus) mirrorJSON {
	inf := &m.Informer
	out := mirrorJSON{
		Name: m.Name, Resource: resourceJSON(m.Resource), Form: m.Form, Compact: m.Compact, Namespaces: m.Namespaces,
		Labels: m.Labels, Fields: m.Fields, Dropped: m.Dropped, Masked: m.Masked, Handles: m.Handles, History: m.History, State: m.State, Cause: oneLine(m.Cause),
		Synced: inf.Synced, Objects: m.Objects, Bytes: m.Bytes, Revision: inf.Store.Revision, Retained: inf.Store.Retained, Log: inf.Logged,
		Refused: inf.Refused, LastRefused: oneLine(inf.LastRefused), PendingWrites: inf.PendingWrites,
		Pending: pendingJSON{inf.Pending.Deltas, inf.Pending.InFlight, inf.Pending.Oldest.Seconds()},
		Indexes: []indexJSON{}, Sources: each(inf.Sources, encodeSource), Subscribers: each(inf.Subscribers, encodeSubscriber),
		Quarantined: each(inf.Quarantine, func(q reflector.Quarantined) quarantinedJSON {
			return quarantinedJSON{q.Key.String(), string(q.Version), oneLine(q.Cause), stamp(q.Since), q.Count}
		}),
	}
	if len(inf.Store.Marks) == 1 {
		out.Version = string(inf.Store.Marks[0].Version)
	}
	for _, x := range inf.Store.Indexes {
		out.Indexes = append(out.Indexes, indexJSON{x.Name, x.Values, x.Failures})
	}
	for i := range out.Sources {
		out.Events += out.Sources[i].Events
	}
	return out
}

func encodeSource(s informer.SourceStatus) sourceJSON {
	r := &s.Reflector
	out := sourceJSON{
		Scope: string(s.Scope), State: r.State.String(), Since: stamp(r.Since), Until: stamp(r.Until), Page: r.Page, Cause: oneLine(s.Err()),
		Listed: s.Listed, Connected: r.Connected, Version: string(r.Resume), LastEvent: stamp(r.LastEvent), LastList: stamp(r.LastList),
		LastError: oneLine(r.LastError), LastErrAt: stamp(r.LastErrorAt), Streaming: r.Streaming.InUse,
		Lists: r.Counts.Lists, Watches: r.Counts.Watches, Reconnects: max(0, r.Counts.Watches-1), Events: r.Counts.Events, Bookmarks: r.Counts.Bookmarks,
	}
	for reason, n := range r.Counts.Ended {
		if reason != reflector.Closed {
			out.Errors += n
		}
		if out.Reasons == nil {
			out.Reasons = map[string]int64{}
		}
		out.Reasons[string(reason)] = n
	}
	return out
}

func encodeSubscriber(s informer.SubscriptionStatus) subscriberJSON {
	return subscriberJSON{
		Name: s.Name, Synced: s.Synced, Lag: s.Lag, LagSeconds: s.LagTime.Seconds(), LastCall: stamp(s.LastCall),
		Calls: s.Calls, Busy: s.Busy.Seconds(), CaughtUp: s.CaughtUp, Panics: s.Panics, LastPanic: oneLine(s.LastPanic),
	}
}

func encodeController(c controller.Status, now time.Time) controllerJSON {
	q, l := &c.Queue, &c.Latency
	out := controllerJSON{
		Name: c.Name, State: c.State.String(), Cause: oneLine(c.Err), Fenced: oneLine(c.Fenced), Paused: c.Paused, Workers: c.Workers,
		Queue:      queueJSON{q.Waiting, q.Dirty, q.Processing, q.Delayed, q.Adds, q.Retries, q.Longest.Seconds()},
		Reconciles: c.Reconciles, Outcomes: outcomes(c), GivenUp: c.GivenUp, HeldTotal: c.Held, SourceFailures: c.SourceFailures, Left: c.Left,
		Latency: latencyJSON{l.Count, l.Mean.Seconds(), l.Median.Seconds(), l.Most99.Seconds(), l.Max.Seconds()},
		Failures: each(c.Failures, func(f controller.Failure) failureJSON {
			return failureJSON{fmt.Sprint(f.Key), oneLine(f.Err), alike(f), f.Attempt, stamp(f.At)}
		}),
		MoreFailures: c.MoreFailures, Failing: c.Failing, Keys: c.Keys,
		Held: each(c.HeldKeys, func(h controller.HeldKey) heldJSON {
			return heldJSON{fmt.Sprint(h.Key), stamp(h.Since), h.Retries, oneLine(h.Err)}
		}),
	}
	if len(c.Running) > 0 {
		r := c.Running[0]
		out.Longest = &runningJSON{fmt.Sprint(r.Key), max(0, now.Sub(r.Since)).Seconds(), r.Attempt}
	}
	return out
}

// outcomes returns how many reconciles had each outcome. Those with Result.RequeueAfter are successes.
func outcomes(c controller.Status) map[string]uint64 {
	all := map[controller.Outcome]uint64{
		controller.OutcomeError: c.Failed - min(c.Failed, c.Panicked), controller.OutcomePanic: c.Panicked,
		controller.OutcomeConflict: c.Conflicts, controller.OutcomeRequeue: c.Requeued, controller.OutcomeStale: c.Stale,
	}
	out, others := map[string]uint64{}, uint64(0)
	for outcome, n := range all {
		others += n
		if n > 0 {
			out[string(outcome)] = n
		}
	}
	out[string(controller.OutcomeSuccess)] = c.Reconciles - min(c.Reconciles, others)
	return out
}
