package shards

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// observer records what the server stores: entries of reconciles, assignments, and membership changes.
// It connects to the server directly.
type observer struct {
	clients *kubernetes.Clientset

	mu          sync.Mutex // guards all below
	writes      []write
	assignments []assignment
	changes     []change
	touches     []touch
	members     map[string]string // what the Leases of members say, except renewals
	entries     map[string]string // the last entry of each key, as text
	pending     map[string]bool   // keys with a "want" that is not "done"
}

// change is a membership change.
type change struct {
	seen time.Time // when the test received it
	text string
}

func newObserver(clients *kubernetes.Clientset) *observer {
	return &observer{clients: clients, members: map[string]string{}, entries: map[string]string{}, pending: map[string]bool{}}
}

// observe watches from a version on until the context is done.
func (o *observer) observe(ctx context.Context, version string) error {
	maps := source{
		watch: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			opts.LabelSelector = ledgerLabel
			return o.clients.CoreV1().ConfigMaps("").Watch(ctx, opts)
		},
		list: func(ctx context.Context, namespace string, opts metav1.ListOptions) (runtime.Object, error) {
			opts.LabelSelector = ledgerLabel
			return o.clients.CoreV1().ConfigMaps(namespace).List(ctx, opts)
		},
	}
	leases := source{
		watch: o.clients.CoordinationV1().Leases(home).Watch,
		list: func(ctx context.Context, _ string, opts metav1.ListOptions) (runtime.Object, error) {
			return o.clients.CoordinationV1().Leases(home).List(ctx, opts)
		},
	}
	errs := make(chan error, 2)
	go func() { errs <- follow(ctx, version, maps, o.takeMap) }()
	go func() { errs <- follow(ctx, version, leases, o.takeLease) }()
	first, second := <-errs, <-errs
	if first != nil {
		return first
	}
	return second
}

func (o *observer) takeMap(_ watch.EventType, obj runtime.Object) error {
	m := obj.(*corev1.ConfigMap)
	key := m.Namespace + "/" + m.Name
	e, err := parseEntry(m)
	if err != nil {
		return err
	}
	version, err := strconv.ParseUint(m.ResourceVersion, 10, 64)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if m.Data["want"] == m.Data["done"] {
		delete(o.pending, key)
	} else {
		o.pending[key] = true
	}
	if text := m.Data[entryField]; text != o.entries[key] {
		o.entries[key] = text
		o.writes = append(o.writes, write{e, key, version})
	}
	return nil
}

func (o *observer) takeLease(event watch.EventType, obj runtime.Object) error {
	l, seen := obj.(*coordinationv1.Lease), time.Now()
	version, err := strconv.ParseUint(l.ResourceVersion, 10, 64)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case strings.HasPrefix(l.Name, group+"-"):
		says := "deleted"
		if event != watch.Deleted {
			says = fmt.Sprintf("ready %q, leaving %q, life %d", l.Annotations["tarn.dev/shard-ready"], l.Annotations["tarn.dev/shard-leaving"], *l.Spec.LeaseTransitions)
		}
		if says != o.members[l.Name] {
			o.members[l.Name] = says
			o.changes = append(o.changes, change{seen, l.Name + ": " + says})
		}
	case event != watch.Deleted:
		places, err := parsePlaces(l)
		if err != nil {
			return err
		}
		o.assignments = append(o.assignments, assignment{places, version, seen})
	}
	return nil
}

// unfinished returns the keys that are not reconciled.
func (o *observer) unfinished() (keys []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key := range o.pending {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// wants records that a key was changed, before the watch shows it.
func (o *observer) wants(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending[key] = true
}

// touched records that the server has stored a change of a key.
func (o *observer) touched(m *corev1.ConfigMap) error {
	version, err := strconv.ParseUint(m.ResourceVersion, 10, 64)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.touches = append(o.touches, touch{m.Namespace + "/" + m.Name, version, time.Now()})
	return nil
}

// lastChange returns the last membership change up to a time.
func (o *observer) lastChange(until time.Time) (last change) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.changes {
		if !c.seen.After(until) {
			last = c
		}
	}
	return last
}
