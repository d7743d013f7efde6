package tarn

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"path"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/journal"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
	"github.com/tarnproject/tarn/wire"
)

// WithJournal keeps on disk what the mirrors receive, in a folder that belongs to one process at a time. A mirror that
// starts again continues with the state in there, and receives only what changed since. WaitSynced returns when it is
// proven that the mirror has everything that a list would have had. MirrorStatus.Journal says how the mirror began, and
// whether it is written. See docs/journal.md for what that costs. At most one opts is used.
//
// It needs permission to get the namespace kube-system, whose UID identifies the cluster; [Cluster.RBAC] has it. These
// mirrors are not written, and list: those of Secrets, unless Options.Secrets is set; those with a [Mask]; and those
// with a [Transform] without a version. Defaults to no journal.
func WithJournal(dir string, opts ...journal.Options) ConnectOption {
	var last journal.Options
	if len(opts) > 0 {
		last = opts[len(opts)-1]
	}
	return func(o *options) { o.journal = func() (*journal.Journal, error) { return journal.New(dir, last) } }
}

// kubeSystem is the namespace whose UID identifies a cluster.
const kubeSystem = metav1.NamespaceSystem

// Why a mirror is not written.
var (
	errSecrets   = errors.New("mirrors of Secrets are not written; set Secrets in journal.Options to allow it")
	errMasked    = errors.New("a mirror with masked fields is not written")
	errTransform = errors.New("the transform has no version; see Transform.Versioned")
)

// journaled is a mirrorLog of any type.
type journaled interface {
	Run(ctx context.Context)
	report() *journal.Report
}

// mirrorLog is the log of a mirror: the informer's source begins with it, and the recorder writes it.
type mirrorLog[P Object] struct {
	*journal.Recorder[P]
	*journal.Source[P]
	cluster *Cluster
	shared  *shared
	edit    func(func(*store.Store[P])) // of the informer
	as      journal.Identity            // without the server
}

func newMirrorLog[P Object](c *Cluster, m *shared, api *wire.API[P], d *declaration, server journal.Server[P],
	encode func(P) ([]byte, error), decode func([]byte) (P, error)) *mirrorLog[P] {
	res := api.Resource()
	l := &mirrorLog[P]{cluster: c, shared: m, as: journal.Identity{
		Resource:   path.Join(m.id.resource.Group, m.id.resource.Version, m.id.resource.Resource),
		Namespaces: d.namespaces, Labels: d.labels, Fields: d.fields, Dropped: m.dropped,
		Form: fmt.Sprintf("%v %v %s", res.Type(), res.Encoding(), fingerprint(res.Type())),
	}}
	if m.transform != nil {
		l.as.Transform = m.transform.version()
	}
	opts := journal.MirrorOptions[P]{
		Cut:    func(f func(store.Snapshot[P])) { l.edit(func(s *store.Store[P]) { f(s.Snapshot()) }) },
		Encode: encode, Decode: decode,
		Identity: l.identity, Allowed: l.allowed, Identities: l.identities,
	}
	log := c.journal.Log(fmt.Sprintf("%s %v", m.id.name(), res.Type()))
	l.Recorder, l.Source = journal.NewRecorder(log, opts), journal.NewSource(server, log, opts)
	return l
}

func (l *mirrorLog[P]) report() *journal.Report {
	return &journal.Report{Status: l.Status(), Resumption: l.Resumption()}
}

func (l *mirrorLog[P]) identity(ctx context.Context) (journal.Identity, error) {
	system, err := wire.For(l.cluster.client, wire.Metadata(namespaces)).Get(ctx, Key{Name: kubeSystem}, wire.GetOptions{})
	if err != nil {
		return journal.Identity{}, fmt.Errorf("get the namespace %s, whose UID identifies the cluster: %w", kubeSystem, err)
	}
	id := l.as
	id.Server = string(system.UID)
	return id, nil
}

func (l *mirrorLog[P]) allowed() error {
	m := l.shared
	switch {
	case m.id.resource.Group == "" && m.id.resource.Resource == "secrets" && !l.cluster.journal.Secrets():
		return errSecrets
	case m.masked.Load() != nil:
		return errMasked
	case m.transform != nil && l.as.Transform == "":
		return errTransform
	}
	return nil
}

func (l *mirrorLog[P]) identities(ctx context.Context, opts object.ListOptions, each func(object.Key, object.UID, object.Version) error) (object.Page, error) {
	list, err := l.cluster.identities(l.shared)
	if err != nil {
		return object.Page{}, err
	}
	return list(ctx, opts, func(k object.Key, id informer.Identity) error { return each(k, id.UID, id.Version) })
}

// write runs the recorder of a mirror as soon as that is synced. The result ends it, after the mirror has ended.
func (c *Cluster) write(m *shared) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-m.inf.Synced():
			m.log.Run(ctx)
		case <-ctx.Done():
		}
	}()
	return func() { cancel(); <-done }
}

// namespaces is the resource of namespaces.
var namespaces = object.Resource{Version: "v1", Resource: "namespaces", Kind: "Namespace"}

// fingerprint identifies what a Go type consists of: an object that was encoded by a program with another type may lack
// fields.
func fingerprint(of reflect.Type) string {
	hash, seen := fnv.New64a(), map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(t reflect.Type) {
		io.WriteString(hash, t.String())
		if seen[t] {
			return
		}
		seen[t] = true
		switch t.Kind() {
		case reflect.Map:
			walk(t.Key())
			walk(t.Elem())
		case reflect.Pointer, reflect.Slice, reflect.Array:
			walk(t.Elem())
		case reflect.Struct:
			for i := range t.NumField() {
				f := t.Field(i)
				io.WriteString(hash, f.Name+" "+string(f.Tag))
				walk(f.Type)
			}
		}
	}
	walk(of)
	return fmt.Sprintf("%x", hash.Sum64())
}
