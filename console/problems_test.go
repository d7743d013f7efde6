package console_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarnproject/tarn/console"
	"github.com/tarnproject/tarn/controller"
	"github.com/tarnproject/tarn/controller/leader"
	"github.com/tarnproject/tarn/controller/shard"
	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/status"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/workqueue"
)

var (
	now        = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	podsIn     = object.Resource{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true}
	widgets    = object.Resource{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true}
	errRefused = errors.New("connection\n refused")
	errDenied  = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no"))
)

// source returns a source that failed with err.
func source(scope object.Scope, listed bool, err error) informer.SourceStatus {
	return informer.SourceStatus{Scope: scope, Listed: listed, Reflector: reflector.Status{
		State: reflector.BackingOff, Cause: err, Until: now.Add(8 * time.Second), Since: now.Add(-time.Minute), LastEvent: now.Add(-time.Minute),
	}}
}

func TestProblemsSayWhatIsWrongAndWhatToDo(t *testing.T) {
	mirror := func(edit func(m *console.MirrorStatus)) console.Status {
		m := console.MirrorStatus{Name: "pods", Resource: podsIn, State: status.Live, Informer: informer.Status{Synced: true, Running: true}}
		edit(&m)
		return console.Status{Time: now, Running: true, Mirrors: []console.MirrorStatus{m}}
	}
	of := func(c controller.Status) console.Status {
		c.Name = "web"
		return console.Status{Time: now, Running: true, Controllers: []controller.Status{c}}
	}
	led := func(l leader.Status) console.Status {
		l.Lease = "shop/web"
		return console.Status{Time: now, Running: true, Leader: &l}
	}
	sharing := func(s shard.Status) console.Status {
		s.Group, s.Member = "shop/web", "a"
		return console.Status{Time: now, Running: true, Shards: &s}
	}
	key := object.Key{Namespace: "shop", Name: "web"}
	many := func(n int, edit func(m *console.MirrorStatus, i int)) (all []console.MirrorStatus) {
		for i := range n {
			m := console.MirrorStatus{Name: fmt.Sprint("m", i), Resource: podsIn, State: status.Stale, Informer: informer.Status{Synced: true, Running: true}}
			edit(&m, i)
			all = append(all, m)
		}
		return all
	}
	down := func(call string) error { // as two requests fail while the server is down
		return fmt.Errorf("reflector: %w", &wire.TransportError{Call: wire.Call{Verb: call}, Err: &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}})
	}
	outage := many(3, func(m *console.MirrorStatus, i int) {
		m.Informer.Sources = []informer.SourceStatus{source("a", i > 0, down(fmt.Sprint("list", i))), source("b", i > 0, fmt.Errorf("read: %w", io.EOF))}
	})
	for name, tt := range map[string]struct {
		status console.Status
		want   []string // severity subject: what
	}{
		"healthy":     {mirror(func(*console.MirrorStatus) {}), nil},
		"not started": {mirror(func(m *console.MirrorStatus) { m.State = status.Declared }), nil},
		"stopped":     {console.Status{Stopped: true}, []string{"error cluster: The cluster's Run has ended, so nothing is mirrored or reconciled."}},
		"CRD not installed": {mirror(func(m *console.MirrorStatus) { m.Resource, m.State, m.Cause = widgets, status.Waiting, errRefused }), []string{
			"error mirror/pods: The server does not serve widgets.example.com in version v1."}},
		"forbidden": {mirror(func(m *console.MirrorStatus) {
			m.State, m.Cause, m.Informer.Sources = status.Syncing, errDenied, []informer.SourceStatus{source(object.Everything, false, errDenied)}
		}), []string{`error mirror/pods: The program may not list or watch pods: pods is forbidden: no.`}},
		"unauthorized": {mirror(func(m *console.MirrorStatus) {
			m.State, m.Informer.Sources = status.Syncing, []informer.SourceStatus{source(object.Everything, false, apierrors.NewUnauthorized("expired"))}
		}), []string{"error mirror/pods: The API server rejects the program's credentials: expired."}},
		"list fails": {mirror(func(m *console.MirrorStatus) {
			m.State, m.Informer.Sources = status.Syncing, []informer.SourceStatus{source("shop", false, errRefused)}
		}), []string{"error mirror/pods: pods in the namespace shop cannot be listed: connection refused."}},
		"stale": {mirror(func(m *console.MirrorStatus) {
			m.State, m.Informer.Sources = status.Stale, []informer.SourceStatus{source(object.Everything, true, errRefused), {Listed: true}}
		}), []string{"error mirror/pods: No changes of pods arrive since 2026-01-02T03:03:05.000Z: connection refused."}},
		"slow list": {mirror(func(m *console.MirrorStatus) {
			m.State, m.Informer.Sources = status.Syncing, []informer.SourceStatus{source(object.Everything, false, nil)}
		}), []string{"warning mirror/pods: The first list of pods takes longer than 30s."}},
		"slow handler": {mirror(func(m *console.MirrorStatus) {
			m.Informer.Subscribers = []informer.SubscriptionStatus{{Name: "audit", Lag: 12000, LagTime: 45 * time.Second}, {Name: "fine", Lag: 10}, {Name: "buggy", Panics: 1, LastPanic: errRefused}}
		}), []string{"warning mirror/pods: The handler audit is 12,000 events behind, the oldest by 45s.", "warning mirror/pods: The handler buggy panicked 1 time: connection refused."}},
		"quarantine": {mirror(func(m *console.MirrorStatus) {
			m.Informer.Quarantine = []reflector.Quarantined{{Key: key, Cause: errRefused}, {Key: key}}
		}), []string{"warning mirror/pods: 2 objects cannot be decoded or transformed, such as shop/web: connection refused."}},
		"store and index": {mirror(func(m *console.MirrorStatus) {
			m.Informer.Refused, m.Informer.LastRefused = 2, errRefused
			m.Informer.Pending = delta.Stats{Deltas: 5, InFlight: 1, Oldest: 20 * time.Second}
			m.Informer.Store.Indexes = []store.IndexStats{{Name: "node", Failures: 3, LastFailure: errRefused}}
		}), []string{"error mirror/pods: The store rejected objects of 2 batches: connection refused.", "warning mirror/pods: 6 changes received up to 20s ago are not applied yet.",
			"warning mirror/pods: The function of the index node failed 3 times: connection refused."}},
		"failing keys": {of(controller.Status{Failures: []controller.Failure{{Key: key, Err: errRefused, Attempt: 2}}}), []string{
			"warning controller/web: 1 key fails, such as shop/web at attempt 2: connection refused."}},
		"failing for long": {of(controller.Status{Failures: []controller.Failure{{Key: "a", Err: errRefused, Attempt: 2}, {Key: "b", Err: errRefused, Attempt: 7}}}), []string{
			"error controller/web: 2 keys fail, such as b at attempt 7: connection refused."}},
		"more failing keys than are kept": {of(controller.Status{MoreFailures: true, Failures: []controller.Failure{{Key: "a", Err: errRefused, Attempt: 1}, {Key: "b", Err: errRefused, Attempt: 2}}}), []string{
			"warning controller/web: At least 2 keys fail, such as b at attempt 2: connection refused."}},
		"one cause, many mirrors": {console.Status{Time: now, Running: true, Mirrors: outage}, []string{
			"error mirrors: 3 mirrors are not live, such as m0: dial tcp: connection refused."}},
		"what follows from it": {console.Status{Time: now, Running: true, Mirrors: outage, Leader: &leader.Status{Lease: "shop/web", Leading: true}, Shards: &shard.Status{Group: "g", Complete: true},
			Controllers: []controller.Status{{Name: "web", Failures: []controller.Failure{{Key: key, Err: down("update"), Attempt: 9}, {Key: "a", Err: errRefused, Attempt: 1}}}}}, []string{
			"error mirrors: 3 mirrors are not live, such as m0: dial tcp: connection refused; the lease shop/web is not renewed for the same reason; the leases of the group g are not renewed for the same reason; 1 key of the controller web fails for the same reason.",
			"warning controller/web: 1 key fails, such as a at attempt 1: connection refused."}},
		"one mirror of many namespaces": {mirror(func(m *console.MirrorStatus) {
			m.State, m.Informer.Sources = status.Syncing, []informer.SourceStatus{source("a", false, errRefused), source("b", false, errRefused)}
		}), []string{"error mirror/pods: pods in 2 namespaces cannot be listed: connection refused."}},
		"two causes": {console.Status{Time: now, Running: true, Mirrors: many(4, func(m *console.MirrorStatus, i int) {
			m.Informer.Sources = []informer.SourceStatus{source(object.Everything, true, []error{errRefused, errors.New("strange")}[i%2])}
		})}, []string{"error mirrors: 2 mirrors are not live, such as m0: connection refused.", "error mirrors: 2 mirrors are not live, such as m1: strange."}},
		"many resources": {console.Status{Time: now, Running: true, Mirrors: many(6, func(m *console.MirrorStatus, i int) {
			m.Resource.Resource = fmt.Sprint("r", i)
			switch m.State = status.Syncing; i / 2 {
			case 0:
				m.State = status.Waiting
			case 1:
				m.Informer.Sources = []informer.SourceStatus{source(object.Everything, false, errDenied)}
			case 2:
				m.Informer.Sources = []informer.SourceStatus{source(object.Everything, false, nil)}
			}
		})}, []string{"error mirrors: The server does not serve 2 resources, such as r0 in version v1.", "error mirrors: The program may not list or watch 2 resources, such as r2: pods is forbidden: no.",
			"warning mirrors: The first lists of 2 mirrors take longer than 30s, such as that of m4."}},
		"failures by error": {of(controller.Status{Failing: 4, Keys: 100, Failures: []controller.Failure{
			{Key: key, Err: errors.New("create shop/web-a1: quota 17 of shop exceeded"), Attempt: 1}, {Key: object.Key{Namespace: "mail", Name: "in.x"}, Err: errors.New("create mail/in.x-b2: quota 9 of mail exceeded"), Attempt: 2},
			{Key: object.Key{Namespace: "shop", Name: "a"}, Err: errRefused, Attempt: 1}, {Key: object.Key{Namespace: "shop", Name: "b"}, Err: errRefused, Attempt: 5}}}), []string{
			"error controller/web: 2 keys fail, such as shop/b at attempt 5: connection refused.", "warning controller/web: 2 keys fail, such as mail/in.x at attempt 2: create mail/in.x-b2: quota 9 of mail exceeded."}},
		"most keys": {of(controller.Status{Failing: 150, Keys: 200, MoreFailures: true, Failures: []controller.Failure{{Key: "a", Err: errRefused, Attempt: 1}, {Key: "b", Err: errRefused, Attempt: 1}}}), []string{
			"error controller/web: 150 of 200 keys fail, such as a at attempt 1: connection refused."}},
		"half of them": {of(controller.Status{Failing: 1, Keys: 2, Failures: []controller.Failure{{Key: "a", Err: errRefused, Attempt: 1}}}), []string{"warning controller/web: 1 key fails, such as a at attempt 1: connection refused."}},
		"failed":       {of(controller.Status{Err: errRefused}), []string{"error controller/web: The controller has failed: connection refused."}},
		"held": {of(controller.Status{HeldKeys: []controller.HeldKey{{Key: key, Since: now.Add(-31 * time.Second), Err: errRefused}}}), []string{
			"error controller/web: The key shop/web has been held back for 31s: connection refused."}},
		"held for a moment": {of(controller.Status{HeldKeys: []controller.HeldKey{{Key: key, Since: now.Add(-time.Second)}}}), nil},
		"busy": {of(controller.Status{Paused: true, Workers: 1, Running: []controller.Running{{Key: key, Since: now.Add(-6 * time.Minute)}}, Queue: workqueue.Stats{Waiting: 1001}, SourceFailures: 1}), []string{
			"warning controller/web: The controller is paused.", "warning controller/web: The reconcile of shop/web runs for 6m0s.",
			"warning controller/web: 1,001 keys wait while all workers (1) are busy.", "warning controller/web: 1 event could not be mapped to keys."}},
		"standby":     {led(leader.Status{Leader: "other"}), nil},
		"leading":     {led(leader.Status{Leading: true, Left: 10 * time.Second}), nil},
		"leader lost": {led(leader.Status{Leader: "other", Terms: 1}), []string{"warning leader: This process has lost the lease shop/web to other; its controllers do not work."}},
		"no leader":   {led(leader.Status{}), []string{"error leader: No process is known to hold the lease shop/web, so no controller works."}},
		"sharing":     {sharing(shard.Status{Active: true, Complete: true, Members: []shard.MemberStatus{{Name: "a", Ready: true}, {Name: "b", Leaving: true}, {Name: "c", Expired: true}}}), nil},
		"shards lost": {sharing(shard.Status{Complete: true, Idle: 7, Members: []shard.MemberStatus{{Name: "b"}}}), []string{
			"error shards: This process is not an active member of the group shop/web, so it works on no key."}},
		"waiting for shards": {sharing(shard.Status{Active: true, Waiting: 12}), []string{
			"warning shards: This process waits for hand-over of 12 slots of the group shop/web."}},
		"idle shards": {sharing(shard.Status{Active: true, Complete: true, Idle: 1}), []string{
			"warning shards: No member of the group shop/web works on 1 slot."}},
		"member not ready": {sharing(shard.Status{Active: true, Complete: true, Members: []shard.MemberStatus{{Name: "a"}, {Name: "b"}}}), []string{
			"warning shards: The member b of the group shop/web gets no slots, because its mirrors are not live."}},
		"lease not renewed": {led(leader.Status{Leading: true, Left: 3 * time.Second}), []string{"warning leader: The lease shop/web expires in 3s because it could not be renewed."}},
	} {
		var got []string
		for _, p := range console.Problems(tt.status) {
			got = append(got, fmt.Sprintf("%s %s: %s", p.Severity, p.Subject, p.What))
			if p.Do == "" || strings.ContainsAny(p.What+p.Do, "\n") {
				t.Errorf("%s: %+v", name, p)
			}
		}
		if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
		}
	}
}

func TestAForbiddenMirrorComesWithTheMissingRole(t *testing.T) {
	m := console.MirrorStatus{Name: "pods", Resource: podsIn, State: status.Syncing, Cause: errDenied}
	role := func(scopes ...object.Scope) string {
		m.Informer.Sources = nil
		for _, s := range scopes {
			m.Informer.Sources = append(m.Informer.Sources, source(s, false, errDenied))
		}
		return console.Problems(console.Status{Time: now, Mirrors: []console.MirrorStatus{m}})[0].YAML
	}
	rules := "rules:\n- apiGroups:\n  - \"\"\n  resources:\n  - pods\n  verbs:\n  - list\n  - watch\n"
	if got := role(object.Everything); got != "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: tarn\n"+rules {
		t.Error(got)
	}
	one := func(namespace string) string {
		return "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata:\n  name: tarn\n  namespace: " + namespace + "\n" + rules
	}
	m.Informer.Sources = []informer.SourceStatus{source(object.Everything, false, errDenied)}
	both := []console.MirrorStatus{m, m, m}
	both[2].Name, both[2].Resource.Resource = "nodes", "nodes"
	nodes := strings.Replace(strings.TrimPrefix(rules, "rules:\n"), "pods", "nodes", 1)
	if got := console.Problems(console.Status{Time: now, Mirrors: both})[0].YAML; !strings.HasSuffix(got, "name: tarn\n"+rules+nodes) {
		t.Errorf("for two resources:\n%s", got)
	}
	if got := role("shop", "mail"); got != one("shop")+"---\n"+one("mail") {
		t.Error(got)
	}
}
