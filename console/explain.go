package console

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/status"
)

// Explanation says why a key is not being reconciled. It is the body of /explain.
type Explanation struct {
	Key         string           `json:"key"`
	Controllers []KeyExplanation `json:"controllers"`
}

// KeyExplanation is an [Explanation] for one controller.
type KeyExplanation struct {
	Controller string `json:"controller"`
	// State is "running", "queued", "delayed", "held", "backing off", "done", "failed", "unknown" or
	// "controller not working".
	State string `json:"state"`
	// Since is when the state began, and Due when the key is added to the queue, as RFC 3339.
	Since string `json:"since,omitempty"`
	Due   string `json:"due,omitempty"`
	// Attempt is the number of the running or the next attempt.
	Attempt  int `json:"attempt,omitempty"`
	Priority int `json:"priority,omitempty"`
	// Why answers in one sentence why the key is not being reconciled, and Do what to do about it.
	Why string `json:"why"`
	Do  string `json:"do,omitempty"`
	// LastError is the last error of a key that has not succeeded since.
	LastError string `json:"lastError,omitempty"`
	// Reconcile is the last reconcile of the key, if it is still known.
	Reconcile *ReconcileRecord `json:"lastReconcile,omitempty"`
	// Objects are the mirrors that the controller reads, as far as they can have the key.
	Objects []ObjectPresence `json:"objects,omitempty"`
}

// ReconcileRecord is a reconcile that has returned.
type ReconcileRecord struct {
	Controller string   `json:"controller"`
	Key        string   `json:"key"`
	At         string   `json:"at"`
	Seconds    float64  `json:"seconds"`
	Attempt    int      `json:"attempt"`
	Outcome    string   `json:"outcome"`
	Error      string   `json:"error,omitempty"`
	Log        []string `json:"log"`
}

// ObjectPresence says whether a mirror has an object.
type ObjectPresence struct {
	Mirror  string `json:"mirror"`
	Exists  bool   `json:"exists"`
	Version string `json:"version,omitempty"`
	// Why is why the mirror may lack it: its state, its selection, or a quarantine.
	Why string `json:"why,omitempty"`
}

func recordOf(name string, r controller.Reconcile) ReconcileRecord {
	return ReconcileRecord{
		Controller: name, Key: fmt.Sprint(r.Key), At: stamp(r.Start), Seconds: r.Duration.Seconds(), Attempt: r.Attempt,
		Outcome: string(r.Outcome), Error: oneLine(r.Err), Log: append([]string{}, r.Log...),
	}
}

// Explain answers why a key is not being reconciled, for one controller or, with an empty name, for
// all of those that know the key. If none does, it explains the key for all of them.
func Explain(c Cluster, key object.Key, name string) (Explanation, error) {
	out := Explanation{Key: key.String(), Controllers: []KeyExplanation{}}
	status := c.Status()
	var known []KeyExplanation
	for i := range status.Controllers {
		s := &status.Controllers[i]
		if name != "" && s.Name != name {
			continue
		}
		ctl := c.ControllerNamed(s.Name)
		if ctl == nil {
			continue
		}
		k := ctl.Inspect(key)
		e := explain(&status, s, k)
		e.Objects = presence(c, &status, s, key)
		out.Controllers = append(out.Controllers, e)
		if k.Running != nil || k.Queued || !k.Due.IsZero() || k.Held != nil || k.Failure != nil || len(k.Recent) > 0 {
			known = append(known, e)
		}
	}
	switch {
	case len(out.Controllers) == 0 && name != "":
		return out, failf(http.StatusNotFound, "there is no controller %q", name)
	case name == "" && len(known) > 0:
		out.Controllers = known
	}
	return out, nil
}

// explain describes a key from the status of its controller and what that knows of the key.
func explain(st *Status, c *controller.Status, k controller.KeyStatus) KeyExplanation {
	e := KeyExplanation{Controller: c.Name, Attempt: k.Attempt, Priority: k.Priority}
	if len(k.Recent) > 0 {
		e.Reconcile = new(recordOf(c.Name, k.Recent[0]))
	}
	if k.Failure != nil {
		e.LastError = oneLine(k.Failure.Err)
	}
	ago := func(t time.Time) string { return inWords(st.Time.Sub(t)) }
	switch {
	case k.Running != nil:
		e.State, e.Since, e.Attempt = "running", stamp(k.Running.Since), k.Running.Attempt
		e.Why = fmt.Sprintf("It is being reconciled, for %s (attempt %d).", ago(k.Running.Since), k.Running.Attempt)
		if st.Time.Sub(k.Running.Since) > slowReconcile {
			e.Do = "The reconcile takes long: look at what it waits for, and set Options.Timeout to limit it."
		}
	case c.State != controller.Working || c.Paused || c.Fenced != nil:
		e.State = "controller not working"
		e.Why, e.Do = notWorking(st, c)
	case k.Held != nil:
		e.State, e.Since, e.Due = "held", stamp(k.Held.Since), stamp(k.Due)
		e.Why = fmt.Sprintf("It has been held back for %s because the cache is older than this process's own write: %s.", ago(k.Held.Since), oneLine(k.Held.Err))
		e.Do = "If that lasts, the watch of that resource is broken, or the written object does not match the mirror's selection."
	case k.Queued:
		e.State, e.Since = "queued", stamp(k.Since)
		e.Why = fmt.Sprintf("It waits for one of %s, with %s in the queue.", count(c.Workers, "worker"), count(c.Queue.Waiting+c.Queue.Dirty, "key"))
		if !k.Since.IsZero() {
			e.Why = fmt.Sprintf("It has waited for %s for one of %s, with %s in the queue.", ago(k.Since), count(c.Workers, "worker"), count(c.Queue.Waiting+c.Queue.Dirty, "key"))
		}
		if len(c.Running) == c.Workers {
			e.Do = "All workers are busy: raise Workers, or make reconciles faster."
		}
	case !k.Due.IsZero() && (k.Failure != nil || k.Backoff && k.Attempt > 1):
		e.State, e.Due = "backing off", stamp(k.Due)
		attempt, cause := k.Attempt-1, "so many keys fail that its error is not kept, but the log has it"
		if k.Failure != nil {
			e.Since, attempt, cause = stamp(k.Failure.At), k.Failure.Attempt, e.LastError
		}
		e.Why = fmt.Sprintf("It is backing off after attempt %d until %s (in %s): %s.", attempt, stamp(k.Due), inWords(k.Due.Sub(st.Time)), cause)
		e.Do = "Fix what the error says, then retry the key now or wait for the next attempt."
	case !k.Due.IsZero():
		e.State, e.Due = "delayed", stamp(k.Due)
		e.Why = fmt.Sprintf("It is due at %s (in %s), as its last reconcile asked.", stamp(k.Due), inWords(k.Due.Sub(st.Time)))
		switch {
		case k.Backoff && len(k.Recent) > 0 && k.Recent[0].Outcome == controller.OutcomeSuccess:
			last := k.Recent[0]
			e.Why = fmt.Sprintf("It was reconciled %s ago (%s), and is due again at %s (in %s), a retry from before.", ago(last.Start.Add(last.Duration)), last.Outcome, stamp(k.Due), inWords(k.Due.Sub(st.Time)))
		case k.Backoff:
			e.Why = fmt.Sprintf("It is retried at %s (in %s) after a conflict or a requeue.", stamp(k.Due), inWords(k.Due.Sub(st.Time)))
		}
	case k.Failure != nil:
		e.State, e.Since = "failed", stamp(k.Failure.At)
		e.Why = fmt.Sprintf("It failed %s ago at attempt %d and is not retried until it changes: %s.", ago(k.Failure.At), k.Failure.Attempt, e.LastError)
		e.Do = "Fix what the error says, then change the object or retry the key now."
	case len(k.Recent) > 0:
		last := k.Recent[0]
		e.State, e.Since, e.Attempt = "done", stamp(last.Start.Add(last.Duration)), 0
		e.Why = fmt.Sprintf("It was reconciled %s ago (%s) and is due again when it changes.", ago(last.Start.Add(last.Duration)), last.Outcome)
	default:
		e.State, e.Attempt = "unknown", 0
		e.Why = "The controller has nothing to do for this key, and it is not among its last reconciles."
		e.Do = "Check that the object exists, and that a source or a predicate of the controller does not filter it out."
	}
	return e
}

// slowReconcile is how long a reconcile may take before it is reported.
const slowReconcile = 5 * time.Minute

// notWorking says why a controller starts no reconcile.
func notWorking(st *Status, c *controller.Status) (why, do string) {
	switch {
	case c.Err != nil:
		return fmt.Sprintf("The controller has failed: %s.", oneLine(c.Err)), "Fix that and restart the program."
	case !st.Running && !st.Stopped:
		return "The cluster's Run has not been called.", "Call Cluster.Run."
	case st.Stopped:
		return "The cluster's Run has ended.", "Restart the program."
	case st.Leader != nil && !st.Leader.Leading:
		holder := cmp.Or(st.Leader.Leader, "no process")
		return fmt.Sprintf("This process does not lead: %s holds the lease %s.", holder, st.Leader.Lease), "Ask the process that holds the lease."
	case c.Paused:
		return "The controller is paused.", "Resume it."
	case c.Fenced != nil:
		return fmt.Sprintf("The controller may not work: %s.", oneLine(c.Fenced)), ""
	case c.State == controller.Starting:
		var names []string
		for i := range st.Mirrors {
			if m := &st.Mirrors[i]; !m.Informer.Synced && subscribes(st, c.Name, m.Name) {
				names = append(names, m.String())
			}
		}
		return "The controller waits for its mirrors to sync" + list(": ", names) + ".", "See the problems of these mirrors."
	}
	return fmt.Sprintf("The controller is %s.", c.State), ""
}

// subscribes reports whether a controller receives the changes of a mirror.
func subscribes(st *Status, name, mirror string) bool {
	return slices.ContainsFunc(st.Mirrors, func(m MirrorStatus) bool {
		return m.Name == mirror && slices.ContainsFunc(m.Informer.Subscribers, func(s informer.SubscriptionStatus) bool { return s.Name == "controller "+name })
	})
}

// list returns names after a prefix; "" without names.
func list(prefix string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	return prefix + strings.Join(names, "; ")
}

// presence returns whether the mirrors that a controller subscribes to have the key. A mirror of
// another scope, whose keys cannot be this one, is left out, and so is one that lacks the key and has other
// objects than those whose keys are reconciled: their names differ, such as those of owned objects.
func presence(c Cluster, st *Status, ctl *controller.Status, key object.Key) (all []ObjectPresence) {
	for i := range st.Mirrors {
		s := &st.Mirrors[i]
		if s.Resource.Namespaced != (key.Namespace != "") || !subscribes(st, ctl.Name, s.Name) {
			continue
		}
		m := c.MirrorNamed(s.Name)
		if m == nil {
			continue
		}
		p := ObjectPresence{Mirror: s.Name}
		if obj, ok := m.Get(key); ok {
			p.Exists, p.Version = true, obj.GetResourceVersion()
		} else if len(ctl.Own) > 0 && !slices.Contains(ctl.Own, s.Name) {
			continue
		} else {
			p.Why = absence(s, key)
		}
		all = append(all, p)
	}
	return all
}

// absence says why a mirror may lack an object.
func absence(s *MirrorStatus, key object.Key) string {
	switch {
	case slices.ContainsFunc(s.Informer.Quarantine, func(q reflector.Quarantined) bool { return q.Key == key }):
		return "it is in quarantine"
	case s.State != status.Live:
		return "the mirror is " + s.State.String()
	case s.Namespaces != nil && !slices.Contains(s.Namespaces, key.Namespace):
		return "the mirror does not cover the namespace"
	case s.Labels != "" || s.Fields != "":
		return "it does not exist, or the mirror's selector does not match it"
	}
	return "it does not exist"
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// inWords rounds a duration for a sentence.
func inWords(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func (h *handler) explain(r *http.Request) (any, error) {
	q := r.URL.Query()
	key, err := object.Parse(q.Get("key"))
	if err != nil {
		return nil, failf(http.StatusBadRequest, "key: %v", err)
	}
	return Explain(h.cluster, key, q.Get("controller"))
}
