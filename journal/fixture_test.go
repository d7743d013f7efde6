package journal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tarnproject/tarn/internal/testkit"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type thing = *corev1.ConfigMap

// encode and decode are the encoding of a thing.
func encode(c thing) ([]byte, error) { return c.Marshal() }

func decode(data []byte) (thing, error) {
	c := &corev1.ConfigMap{}
	return c, c.Unmarshal(data)
}

// contents are the objects of a state, as text, and its version.
type contents struct {
	objects map[object.Key]string
	mark    Mark
}

func (c contents) equal(other contents) bool {
	return c.mark == other.mark && maps.Equal(c.objects, other.objects)
}

func text(c thing) string {
	return fmt.Sprintf("%s %s %s %v", c.Name, c.UID, c.ResourceVersion, c.Data)
}

// mirror is a store with a recorder, and every state that it ever had.
type mirror struct {
	mu      sync.Mutex
	store   *store.Store[thing]
	rec     *Recorder[thing]
	version int
	rand    *rand.Rand
	had     []contents
	refused error
}

// want is the identity of mirrors in tests.
var want = Identity{Server: "a", Resource: "v1/configmaps", Form: "ConfigMap", Dropped: []string{"metadata.managedFields"}}

func newMirror(seed uint64, log *Log, packed bool) *mirror {
	opts := store.Options[thing]{}
	if packed {
		opts.Form = store.Packed(encode, decode)
	}
	m := &mirror{store: testkit.Must(store.New(object.Meta[thing](), opts)), rand: rand.New(rand.NewPCG(seed, 1))}
	m.rec = NewRecorder(log, MirrorOptions[thing]{
		Cut: func(f func(store.Snapshot[thing])) {
			m.mu.Lock()
			defer m.mu.Unlock()
			f(m.store.Snapshot())
		},
		Encode:   encode,
		Identity: func(context.Context) (Identity, error) { return want, nil },
		Allowed: func() error {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.refused
		},
	})
	return m
}

func (m *mirror) thing(name string) thing {
	m.version++
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID("uid-of-" + name), ResourceVersion: fmt.Sprint(m.version),
			Annotations: map[string]string{"about": "what many things of one sort have in common, which is much of each of them"},
		},
		Data: map[string]string{"count": fmt.Sprint(m.rand.IntN(1000))},
	}
}

// list replaces everything by n objects.
func (m *mirror) list(n int) {
	var all []thing
	for i := range n {
		all = append(all, m.thing(fmt.Sprintf("thing-%d", i)))
	}
	l := testkit.Must(object.ListOf(object.Meta[thing](), object.Version(fmt.Sprint(m.version)), all...))
	m.apply(&object.Batch[thing]{Changes: []object.Change[thing]{{Kind: object.Replaced, List: &l}}, Marks: []object.Mark{l.Mark}})
}

// churn applies a batch of random changes.
func (m *mirror) churn() {
	b := &object.Batch[thing]{}
	for range m.rand.IntN(4) {
		obj := m.thing(fmt.Sprintf("thing-%d", m.rand.IntN(12)))
		kind := object.Updated
		if m.rand.IntN(3) == 0 {
			kind = object.Deleted
		}
		item := testkit.Must(object.ItemOf(object.Meta[thing](), obj))
		b.Changes = append(b.Changes, object.ChangeOf(kind, &item))
	}
	m.version++
	b.Marks = []object.Mark{{Version: object.Version(fmt.Sprint(m.version))}}
	m.apply(b)
}

func (m *mirror) apply(b *object.Batch[thing]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	changes, err := m.store.Apply(b, nil)
	if err != nil {
		panic(err)
	}
	m.store.View(func(now store.Snapshot[thing]) {
		is := contents{objects: map[object.Key]string{}, mark: markOf(now.Mark(""))}
		for obj := range now.All() {
			is.objects[object.Key{Namespace: obj.Namespace, Name: obj.Name}] = text(obj)
		}
		m.had = append(m.had, is)
		m.rec.Applied(b, changes, now)
	})
}

// now is the current state.
func (m *mirror) now() contents {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.had[len(m.had)-1]
}

// age returns how many states ago the mirror had a state; ok is false if it never had it.
func (m *mirror) age(of contents) (ago int, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, was := range slices.Backward(m.had) {
		if was.equal(of) {
			return len(m.had) - 1 - i, true
		}
	}
	return 0, false
}

// run starts the recorder and returns what ends it.
func (m *mirror) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.rec.Run(ctx)
	}()
	return func() { cancel(); <-done }
}

// load reads a log.
func load(log *Log, id Identity) (contents, State, error) {
	var c contents
	st, err := log.Load(id, func() { c.objects = map[object.Key]string{} }, func(e *Entry) {
		if e.removes() {
			delete(c.objects, e.Key)
			return
		}
		obj, err := decode(e.Data)
		if err != nil || string(obj.UID) != string(e.UID) || obj.ResourceVersion != string(e.Version) {
			panic(fmt.Sprint("another object: ", e, obj, err))
		}
		c.objects[e.Key] = text(obj)
	})
	c.mark, _ = st.Mark("")
	return c, st, err
}

// open returns a journal in a folder that has its lock until the test ends.
func open(t *testing.T, dir string, opts Options) *Journal {
	t.Helper()
	j := testkit.Must(New(dir, opts))
	if err := j.acquire(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

// eventually waits in virtual time.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 100_000 {
		if is() {
			return
		}
		testkit.Advance(time.Millisecond)
	}
	t.Fatalf("not after 100 s: %s", what)
}

func writes(m *mirror) func() bool { return func() bool { return m.rec.Status().Writing } }

// faulty is a disk with faults.
type faulty struct {
	realDisk
	mu sync.Mutex
	// left is how many bytes can be written until everything fails; negative for no limit.
	left int
	// err is what everything fails with.
	err error
	// block is what writes wait for; nil for nothing.
	block chan struct{}
}

var errKilled = errors.New("the process was killed")

func (d *faulty) set(f func(*faulty)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(d)
}

func (d *faulty) failure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

func (d *faulty) Create(path string) (file, error) {
	if err := d.failure(); err != nil {
		return nil, err
	}
	f, err := d.realDisk.Create(path)
	return faultyFile{d, f}, err
}

func (d *faulty) Remove(path string) error {
	if err := d.failure(); err != nil {
		return err
	}
	return d.realDisk.Remove(path)
}

type faultyFile struct {
	d *faulty
	file
}

func (f faultyFile) Write(data []byte) (int, error) {
	f.d.mu.Lock()
	block := f.d.block
	f.d.mu.Unlock()
	if block != nil {
		<-block
	}
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.d.err != nil {
		return 0, f.d.err
	}
	if f.d.left >= 0 && len(data) > f.d.left {
		n, err := f.file.Write(data[:f.d.left])
		f.d.err = errKilled
		return n, errors.Join(errKilled, err)
	}
	if f.d.left >= 0 {
		f.d.left -= len(data)
	}
	return f.file.Write(data)
}

func (f faultyFile) Sync() error {
	if err := f.d.failure(); err != nil {
		return err
	}
	return f.file.Sync()
}

// segmentsOf returns the paths of the segments of a folder.
func segmentsOf(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*", "*"+extension))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
