package console

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/controller/leader"
	"github.com/tarnproject/tarn/controller/shard"
)

// Problem is something in a [Status] that needs attention.
type Problem struct {
	// Severity is "error" if objects or keys are affected now, otherwise "warning".
	Severity string `json:"severity"`
	// Subject is what is affected, such as "mirror/pods" or "controller/website"; "mirrors" for
	// several that have one cause.
	Subject string `json:"subject"`
	// What says what is wrong and why, and Do what to do about it, in one sentence each.
	What string `json:"what"`
	Do   string `json:"do"`
	// YAML is a manifest that fixes it, such as the missing RBAC rules.
	YAML string `json:"yaml,omitempty"`
	// Mirrors are the first of several mirrors that are affected, and Keys those of the keys of the
	// controller.
	Mirrors []string `json:"mirrors,omitempty"`
	Keys    []string `json:"keys,omitempty"`
}

// Limits beyond which something is a problem.
const (
	lagChanges  = 1000             // changes that a subscriber is behind
	lagTime     = 10 * time.Second // age of the oldest of them
	listTime    = 30 * time.Second // duration of the first list
	pendingTime = 10 * time.Second // age of a change that is not applied
	heldTime    = 30 * time.Second // for which a key is held back
	waitingKeys = 1000             // in a queue while all workers are busy
	manyRetries = 5                // attempts after which a failing key is an error
	maxAffected = 10               // mirrors or keys that a problem lists
	maxErrors   = 5                // different errors of one controller that are problems of their own
)

// Problems returns what is unhealthy, most severe first, and one problem for each cause. It depends on
// nothing but the status.
func Problems(s Status) []Problem {
	ps := problems{causes: map[string]int{}}
	if s.Stopped {
		ps.error("cluster", "The cluster's Run has ended, so nothing is mirrored or reconciled.", "Restart the program.")
	}
	ps.mirrors(&s)
	if l := s.Leader; l != nil {
		ps.leader(l)
	}
	if g := s.Shards; g != nil {
		ps.shards(&s, g)
	}
	for i := range s.Mirrors {
		ps.mirror(&s.Mirrors[i])
	}
	for i := range s.Controllers {
		ps.controller(&s, &s.Controllers[i])
	}
	slices.SortStableFunc(ps.all, func(a, b Problem) int { return cmp.Compare(a.Severity, b.Severity) }) // "error" < "warning"
	return ps.all
}

func (ps *problems) leader(l *leader.Status) {
	switch {
	case (l.Leading && l.Left < 5*time.Second || !l.Leading && l.Leader == "") && ps.follows(unreachable, fmt.Sprintf("the lease %s is not renewed", l.Lease)):
	case l.Leading && l.Ailing && ps.follows(unreachable, fmt.Sprintf("the lease %s is held without live mirrors", l.Lease)):
	case l.Leading && l.Ailing:
		ps.warn("leader", fmt.Sprintf("This process holds the lease %s although its mirrors are not live.", l.Lease), "It gives up the lease as soon as a replica whose mirrors are live can take over; see the problems of the mirrors.")
	case l.Leading && l.Left < 5*time.Second:
		ps.warn("leader", fmt.Sprintf("The lease %s expires in %s because it could not be renewed.", l.Lease, inWords(l.Left)), "Check the connection to the API server, and that the role allows update of leases.")
	case !l.Leading && l.Leader == "":
		ps.error("leader", fmt.Sprintf("No process is known to hold the lease %s, so no controller works.", l.Lease), "Check that the role allows get, create and update of leases.")
	case !l.Leading && l.Terms > 0:
		ps.warn("leader", fmt.Sprintf("This process has lost the lease %s to %s; its controllers do not work.", l.Lease, l.Leader), "If that happens often, the process or the API server is too slow to renew the lease.")
	}
}

func (ps *problems) shards(s *Status, g *shard.Status) {
	if n := len(g.Stuck); n > 0 {
		ps.error("shards", fmt.Sprintf("Reconciles in %s have not ended since the lease of this process lapsed%s.", count(n, "slot"), longest(s)),
			"Make reconciles return when their context is done. The slots stay blocked in this process until they do, or until it is restarted.")
	}
	if !g.Active && g.Complete && !ps.follows(unreachable, fmt.Sprintf("the leases of the group %s are not renewed", g.Group)) {
		ps.error("shards", fmt.Sprintf("This process is not an active member of the group %s, so it works on no key.", g.Group),
			"Check the connection to the API server, and that the role allows get, list, watch, create, update and delete of leases.")
	}
	if !g.Complete {
		ps.warn("shards", fmt.Sprintf("This process waits for hand-over of %s of the group %s.", count(g.Waiting, "slot"), g.Group),
			"A new group begins after one lease duration; other members end running reconciles before they hand over.")
	}
	if g.Active && g.Idle > 0 {
		ps.warn("shards", fmt.Sprintf("No member of the group %s works on %s.", g.Group, count(g.Idle, "slot")),
			"That ends two lease durations after the last change; if it lasts, check the logs of the members.")
	}
	for _, m := range g.Members {
		if g.Active && m.Name != g.Member && !m.Ready && !m.Leaving && !m.Expired {
			ps.warn("shards", fmt.Sprintf("The member %s of the group %s gets no slots, because its mirrors are not live.", m.Name, g.Group), "See the problems of that process.")
		}
	}
}

// longest returns which reconcile runs for the longest time, as part of a sentence.
func longest(s *Status) (text string) {
	since := s.Time
	for i := range s.Controllers {
		if c := &s.Controllers[i]; len(c.Running) > 0 && c.Running[0].Since.Before(since) {
			since = c.Running[0].Since
			text = fmt.Sprintf(", such as that of %v by the controller %s, which runs for %s", c.Running[0].Key, c.Name, inWords(s.Time.Sub(since)))
		}
	}
	return text
}

// problems collects them.
type problems struct {
	all    []Problem
	causes map[string]int // where those are that others may follow from, by the cause
}

func (ps *problems) add(p Problem) { ps.all = append(ps.all, p) }
func (ps *problems) error(subject, what, do string) {
	ps.add(Problem{Severity: "error", Subject: subject, What: what, Do: do})
}
func (ps *problems) warn(subject, what, do string) {
	ps.add(Problem{Severity: "warning", Subject: subject, What: what, Do: do})
}

// follows adds a consequence to the problem with a cause. It reports whether there is one.
func (ps *problems) follows(cause, what string) bool {
	i, ok := ps.causes[cause]
	if ok {
		ps.all[i].What = strings.TrimSuffix(ps.all[i].What, ".") + "; " + what + " for the same reason."
	}
	return ok
}

// mirror reports what is wrong with a mirror besides why it is not live.
func (ps *problems) mirror(m *MirrorStatus) {
	subject, inf := "mirror/"+m.Name, &m.Informer
	if n := len(inf.Quarantine); n > 0 {
		q := inf.Quarantine[0]
		ps.warn(subject, fmt.Sprintf("%s cannot be decoded or transformed, such as %s: %s.", count(n, "object"), q.Key, oneLine(q.Cause)),
			"Fix the object, its Go type or the transform; readers see its last good state until then.")
	}
	if inf.Refused > 0 {
		ps.error(subject, fmt.Sprintf("The store rejected objects of %s: %s.", counted(inf.Refused, "batch", "batches"), oneLine(inf.LastRefused)), "Report this: the mirror lacks these objects.")
	}
	if a := inf.Audit; a != nil && a.Count() > 0 {
		ps.error(subject, fmt.Sprintf("%s not as on the server, found by an audit at %s, such as %s.", counted(uint64(a.Count()), "object is", "objects are"), stamp(a.Time), a.Differences[0]),
			"Restart the program, and please report this as a defect.")
	}
	if p := &inf.Pending; p.Oldest > pendingTime {
		ps.warn(subject, fmt.Sprintf("%s received up to %s ago are not applied yet.", counted(uint64(p.Deltas+p.InFlight), "change", "changes"), inWords(p.Oldest)),
			"An index function or a transform is slow, or the process lacks CPU.")
	}
	for _, x := range inf.Store.Indexes {
		if x.Failures > 0 {
			ps.warn(subject, fmt.Sprintf("The function of the index %s failed %s: %s.", x.Name, counted(x.Failures, "time", "times"), oneLine(x.LastFailure)), "Fix the index function; these objects are missing in the index.")
		}
	}
	for _, sub := range inf.Subscribers {
		if sub.Lag > lagChanges || sub.LagTime > lagTime {
			ps.warn(subject, fmt.Sprintf("The handler %s is %s events behind, the oldest by %s.", sub.Name, thousands(sub.Lag), inWords(sub.LagTime)),
				"Its function is slow or blocked; let it only add keys to a queue.")
		}
		if sub.Panics > 0 {
			ps.warn(subject, fmt.Sprintf("The handler %s panicked %s: %s.", sub.Name, counted(sub.Panics, "time", "times"), oneLine(sub.LastPanic)), "Fix the handler; each panic lost one event. The log has the stack.")
		}
	}
}

func (ps *problems) controller(s *Status, c *controller.Status) {
	subject := "controller/" + c.Name
	if c.Err != nil {
		ps.error(subject, fmt.Sprintf("The controller has failed: %s.", oneLine(c.Err)), "Fix that and restart the program.")
	}
	if c.Paused {
		ps.warn(subject, "The controller is paused.", "Resume it.")
	}
	ps.failing(c)
	if c.FunctionPanics > 0 {
		ps.warn(subject, fmt.Sprintf("Functions of the program panicked %s, the last: %s.", counted(c.FunctionPanics, "time", "times"), oneLine(c.LastFunctionPanic)),
			"Fix the function; each panic affects one key. The log has the stack.")
	}
	if c.NotReady != nil && !slices.ContainsFunc(s.Mirrors, func(m MirrorStatus) bool { return m.Cause != nil }) {
		ps.error(subject, fmt.Sprintf("The controller waits for its sources: %s.", oneLine(c.NotReady)), "It begins to work when they are ready.")
	}
	if len(c.HeldKeys) > 0 {
		if h := c.HeldKeys[0]; s.Time.Sub(h.Since) > heldTime {
			ps.add(Problem{
				Severity: "error", Subject: subject, Keys: []string{fmt.Sprint(h.Key)},
				What: fmt.Sprintf("The key %v has been held back for %s: %s.", h.Key, inWords(s.Time.Sub(h.Since)), oneLine(h.Err)),
				Do:   "The watch of that resource is broken, or the written object does not match the mirror's selection.",
			})
		}
	}
	if len(c.Running) > 0 {
		if r := c.Running[0]; s.Time.Sub(r.Since) > slowReconcile {
			ps.add(Problem{
				Severity: "warning", Subject: subject, Keys: []string{fmt.Sprint(r.Key)},
				What: fmt.Sprintf("The reconcile of %v runs for %s.", r.Key, inWords(s.Time.Sub(r.Since))), Do: "Look at what it waits for, and set Options.Timeout to limit it.",
			})
		}
	}
	if n := c.Queue.Waiting + c.Queue.Dirty; n > waitingKeys && len(c.Running) >= c.Workers {
		ps.warn(subject, fmt.Sprintf("%s keys wait while %s are busy.", thousands(n), fmt.Sprintf("all workers (%d)", c.Workers)), "Raise Workers, or make reconciles faster.")
	}
	if c.SourceFailures > 0 {
		ps.warn(subject, fmt.Sprintf("%s could not be mapped to keys.", counted(c.SourceFailures, "event", "events")), "Fix the mapping function of Watches; the log has the error.")
	}
}

func counted(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return thousands(int(n)) + " " + many
}

// thousands formats a number with thousands separators.
func thousands(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
