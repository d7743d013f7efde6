package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/controller/shard"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
)

// Problem is something in a [Status] that needs attention.
type Problem struct {
	// Severity is "error" if objects or keys are affected now, otherwise "warning".
	Severity string `json:"severity"`
	// Subject is what is affected, such as "mirror/pods" or "controller/website".
	Subject string `json:"subject"`
	// What says what is wrong and why, and Do what to do about it, in one sentence each.
	What string `json:"what"`
	Do   string `json:"do"`
	// YAML is a manifest that fixes it, such as the missing RBAC rule.
	YAML string `json:"yaml,omitempty"`
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
)

// Problems returns what is unhealthy, most severe first. It depends on nothing but the status.
func Problems(s Status) []Problem {
	var ps problems
	if s.Stopped {
		ps.error("cluster", "The cluster's Run has ended, so nothing is mirrored or reconciled.", "Restart the program.")
	}
	if l := s.Leader; l != nil {
		switch {
		case l.Leading && l.Ailing:
			ps.warn("leader", fmt.Sprintf("This process holds the lease %s although its mirrors are not live.", l.Lease), "It gives up the lease as soon as a replica whose mirrors are live can take over; see the problems of the mirrors.")
		case l.Leading && l.Left < 5*time.Second:
			ps.warn("leader", fmt.Sprintf("The lease %s expires in %s because it could not be renewed.", l.Lease, brief(l.Left)), "Check the connection to the API server, and that the role allows update of leases.")
		case !l.Leading && l.Leader == "":
			ps.error("leader", fmt.Sprintf("No process is known to hold the lease %s, so no controller works.", l.Lease), "Check that the role allows get, create and update of leases.")
		case !l.Leading && l.Terms > 0:
			ps.warn("leader", fmt.Sprintf("This process has lost the lease %s to %s; its controllers do not work.", l.Lease, l.Leader), "If that happens often, the process or the API server is too slow to renew the lease.")
		}
	}
	if g := s.Shards; g != nil {
		ps.shards(&s, g)
	}
	for i := range s.Mirrors {
		ps.mirror(&s, &s.Mirrors[i])
	}
	for i := range s.Controllers {
		ps.controller(&s, &s.Controllers[i])
	}
	slices.SortStableFunc(ps, func(a, b Problem) int { return cmp.Compare(a.Severity, b.Severity) }) // "error" < "warning"
	return ps
}

func (ps *problems) shards(s *Status, g *shard.Status) {
	if n := len(g.Stuck); n > 0 {
		ps.error("shards", fmt.Sprintf("Reconciles in %s have not ended since the lease of this process lapsed%s.", count(n, "slot"), s.longest()),
			"Make reconciles return when their context is done. The slots stay blocked in this process until they do, or until it is restarted.")
	}
	if !g.Active && g.Complete {
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
func (s *Status) longest() (text string) {
	since := s.Time
	for i := range s.Controllers {
		if c := &s.Controllers[i]; len(c.Running) > 0 && c.Running[0].Since.Before(since) {
			since = c.Running[0].Since
			text = fmt.Sprintf(", such as that of %v by the controller %s, which runs for %s", c.Running[0].Key, c.Name, brief(s.Time.Sub(since)))
		}
	}
	return text
}

type problems []Problem

func (ps *problems) add(p Problem) { *ps = append(*ps, p) }
func (ps *problems) error(subject, what, do string) {
	ps.add(Problem{Severity: "error", Subject: subject, What: what, Do: do})
}
func (ps *problems) warn(subject, what, do string) {
	ps.add(Problem{Severity: "warning", Subject: subject, What: what, Do: do})
}

func (ps *problems) mirror(s *Status, m *MirrorStatus) {
	subject, inf := "mirror/"+m.Name, &m.Informer
	ps.sources(s, m)
	if n := len(inf.Quarantine); n > 0 {
		q := inf.Quarantine[0]
		ps.warn(subject, fmt.Sprintf("%s cannot be decoded or transformed, such as %s: %s.", count(n, "object"), q.Key, oneLine(q.Cause)),
			"Fix the object, its Go type or the transform; readers see its last good state until then.")
	}
	if inf.Refused > 0 {
		ps.error(subject, fmt.Sprintf("The store rejected objects of %s: %s.", counted(inf.Refused, "batch", "batches"), oneLine(inf.LastRefused)), "Report this: the mirror lacks these objects.")
	}
	if p := &inf.Pending; p.Oldest > pendingTime {
		ps.warn(subject, fmt.Sprintf("%s received up to %s ago are not applied yet.", counted(uint64(p.Deltas+p.InFlight), "change", "changes"), brief(p.Oldest)),
			"An index function or a transform is slow, or the process lacks CPU.")
	}
	for _, x := range inf.Store.Indexes {
		if x.Failures > 0 {
			ps.warn(subject, fmt.Sprintf("The function of the index %s failed %s: %s.", x.Name, counted(x.Failures, "time", "times"), oneLine(x.LastFailure)), "Fix the index function; these objects are missing in the index.")
		}
	}
	for _, sub := range inf.Subscribers {
		if sub.Lag > lagChanges || sub.LagTime > lagTime {
			ps.warn(subject, fmt.Sprintf("The handler %s is %s events behind, the oldest by %s.", sub.Name, thousands(sub.Lag), brief(sub.LagTime)),
				"Its function is slow or blocked; let it only add keys to a queue.")
		}
		if sub.Panics > 0 {
			ps.warn(subject, fmt.Sprintf("The handler %s panicked %s: %s.", sub.Name, counted(sub.Panics, "time", "times"), oneLine(sub.LastPanic)), "Fix the handler; each panic lost one event. The log has the stack.")
		}
	}
}

// sources reports why a mirror is not live.
func (ps *problems) sources(s *Status, m *MirrorStatus) {
	subject := "mirror/" + m.Name
	switch {
	case m.State == Waiting:
		ps.error(subject, fmt.Sprintf("The server does not serve %s in version %s.", m.Resource, m.Resource.Version),
			fmt.Sprintf("Install its CustomResourceDefinition (kubectl get crd %s), or correct the group and version; the mirror starts when the server serves it.", m.Resource))
		return
	case m.State != Syncing && m.State != Stale:
		return
	}
	var denied []string // scopes
	for i := range m.Informer.Sources {
		src := &m.Informer.Sources[i]
		r, err := &src.Reflector, src.Err()
		where := ""
		if src.Scope != object.Everything {
			where = " in the namespace " + string(src.Scope)
		}
		switch {
		case err == nil && !src.Listed && !r.Since.IsZero() && s.Time.Sub(r.Since) > listTime:
			ps.warn(subject, fmt.Sprintf("The first list of %s%s takes longer than %s.", m.Resource, where, brief(listTime)), "The API server or the network is slow, or other lists go first.")
		case err == nil:
		case apierrors.IsForbidden(err):
			denied = append(denied, string(src.Scope))
		case apierrors.IsUnauthorized(err):
			ps.error(subject, fmt.Sprintf("The API server rejects the program's credentials: %s.", oneLine(err)), "Check the service account or the kubeconfig.")
		case !src.Listed:
			ps.error(subject, fmt.Sprintf("%s%s cannot be listed: %s.", m.Resource, where, oneLine(err)), retrying(s, r, err))
		default:
			since := ""
			if !r.LastEvent.IsZero() {
				since = " since " + stamp(r.LastEvent)
			}
			ps.error(subject, fmt.Sprintf("No changes of %s%s arrive%s: %s.", m.Resource, where, since, oneLine(err)), "The last state is readable. "+retrying(s, r, err))
		}
	}
	if len(denied) > 0 {
		ps.add(Problem{
			Severity: "error", Subject: subject, What: fmt.Sprintf("The program may not list or watch %s: %s.", m.Resource, oneLine(m.Cause)),
			Do:   fmt.Sprintf("Allow list and watch of %s in a role of its user or service account; the mirror starts by itself.", m.Resource),
			YAML: missingRole(m.Resource, denied),
		})
	}
}

// retrying says what to do about a request that failed.
func retrying(s *Status, r *reflector.Status, err error) string {
	when, check := "", "check the API server and the network"
	if r.State == reflector.BackingOff && r.Until.After(s.Time) {
		when = " in " + brief(r.Until.Sub(s.Time))
	}
	switch {
	case apierrors.IsTooManyRequests(err):
		check = "the server is overloaded or limits this user: check API priority and fairness"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, object.ErrIdle):
		check = "check whether a proxy delays responses"
	case errors.Is(err, object.ErrCorrupt):
		check = "check whether a proxy modifies responses"
	}
	return fmt.Sprintf("The mirror retries%s; if that lasts, %s.", when, check)
}

// missingRole returns the roles that allow to mirror a resource in some scopes, as YAML.
func missingRole(res object.Resource, scopes []string) (text string) {
	rules := []rbacv1.PolicyRule{{APIGroups: []string{res.Group}, Resources: []string{res.Resource}, Verbs: []string{"list", "watch"}}}
	for i, scope := range scopes {
		var role any = &rbacv1.ClusterRole{
			TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"}, ObjectMeta: metav1.ObjectMeta{Name: "tarn"}, Rules: rules,
		}
		if object.Scope(scope) != object.Everything {
			role = &rbacv1.Role{
				TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"}, ObjectMeta: metav1.ObjectMeta{Name: "tarn", Namespace: scope}, Rules: rules,
			}
		}
		data, err := yaml.Marshal(role)
		if err != nil {
			return ""
		}
		if i > 0 {
			text += "---\n"
		}
		text += string(data)
	}
	return text
}

func (ps *problems) controller(s *Status, c *controller.Status) {
	subject := "controller/" + c.Name
	if c.Err != nil {
		ps.error(subject, fmt.Sprintf("The controller has failed: %s.", oneLine(c.Err)), "Fix that and restart the program.")
	}
	if c.Paused {
		ps.warn(subject, "The controller is paused.", "Resume it.")
	}
	if n := len(c.Failures); n > 0 {
		worst := slices.MaxFunc(c.Failures, func(a, b controller.Failure) int { return cmp.Compare(a.Attempt, b.Attempt) })
		number := counted(uint64(n), "key fails", "keys fail")
		if c.MoreFailures {
			number = "At least " + number
		}
		p := Problem{
			Severity: "warning", Subject: subject, Do: "Fix what the error says; explain the key for its next attempt.",
			What: fmt.Sprintf("%s, such as %v at attempt %d: %s.", number, worst.Key, worst.Attempt, oneLine(worst.Err)),
		}
		if worst.Attempt >= manyRetries {
			p.Severity = "error"
		}
		ps.add(p)
	}
	if c.FunctionPanics > 0 {
		ps.warn(subject, fmt.Sprintf("Functions of the program panicked %s, the last: %s.", counted(c.FunctionPanics, "time", "times"), oneLine(c.LastFunctionPanic)),
			"Fix the function; each panic affects one key. The log has the stack.")
	}
	if c.NotReady != nil && !slices.ContainsFunc(s.Mirrors, func(m MirrorStatus) bool { return m.Cause != nil }) {
		ps.error(subject, fmt.Sprintf("The controller waits for its sources: %s.", oneLine(c.NotReady)), "It begins to work when they are ready.")
	}
	if len(c.HeldKeys) > 0 {
		if h := c.HeldKeys[0]; s.Time.Sub(h.Since) > heldTime {
			ps.error(subject, fmt.Sprintf("The key %v has been held back for %s: %s.", h.Key, brief(s.Time.Sub(h.Since)), oneLine(h.Err)),
				"The watch of that resource is broken, or the written object does not match the mirror's selection.")
		}
	}
	if len(c.Running) > 0 {
		if r := c.Running[0]; s.Time.Sub(r.Since) > slowReconcile {
			ps.warn(subject, fmt.Sprintf("The reconcile of %v runs for %s.", r.Key, brief(s.Time.Sub(r.Since))), "Look at what it waits for, and set Options.Timeout to limit it.")
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
