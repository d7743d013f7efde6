package store_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// A store by itself: a thread-safe set of objects with snapshots.
func ExampleStore() {
	s, err := store.New(object.Meta[*corev1.Pod](), store.Options[*corev1.Pod]{})
	if err != nil {
		panic(err)
	}
	web := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	if err := s.Set(web); err != nil {
		panic(err)
	}

	pod, ok := s.Get(object.Key{Namespace: "shop", Name: "web"})
	fmt.Println(ok, pod.Name)

	snap := s.Snapshot() // never changes
	defer snap.Release()
	s.Delete(object.Key{Namespace: "shop", Name: "web"})
	fmt.Println("now:", s.Len(), "then:", snap.Len())
	// Output:
	// true web
	// now: 0 then: 1
}

// Anything that has a key can be stored.
func ExampleNew() {
	type Team struct{ Name, Lead string }
	byName := object.Keyed(func(t Team) object.Key { return object.Key{Name: t.Name} })
	teams := store.Must(store.New(byName, store.Options[Team]{}))

	_ = teams.Set(Team{Name: "storage", Lead: "ada"})
	team, _ := teams.Get(object.Key{Name: "storage"})
	fmt.Println(team.Lead)
	// Output: ada
}

// Apply makes a batch of deltas one transaction and returns what changed.
func ExampleStore_Apply() {
	meta := object.Meta[*corev1.Pod]()
	s := store.Must(store.New(meta, store.Options[*corev1.Pod]{}))
	pod := func(name, uid, version string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: object.UID(uid), ResourceVersion: version}}
	}

	// First a list of everything, as it was at version 10.
	list, _ := object.ListOf(meta, "10", pod("db", "u1", "4"), pod("web", "u2", "7"))
	changes, err := s.Apply(&object.Batch[*corev1.Pod]{
		Changes: []object.Change[*corev1.Pod]{{Kind: object.Replaced, List: &list}},
		Marks:   []object.Mark{list.Mark},
	}, nil)
	if err != nil {
		panic(err)
	}

	// Then the events of a watch: an update, a stale event, and a pod created again.
	changes, err = s.Apply(&object.Batch[*corev1.Pod]{
		Changes: []object.Change[*corev1.Pod]{
			{Kind: object.Updated, Key: object.Key{Name: "db"}, UID: "u1", Version: "11", Value: object.Decoded(pod("db", "u1", "11"))},
			{Kind: object.Updated, Key: object.Key{Name: "db"}, UID: "u1", Version: "9", Value: object.Decoded(pod("db", "u1", "9"))},
			{Kind: object.Added, Key: object.Key{Name: "web"}, UID: "u3", Version: "12", Value: object.Decoded(pod("web", "u3", "12"))},
		},
		Marks: []object.Mark{{Version: "12"}},
	}, changes)
	if err != nil {
		panic(err)
	}
	for _, c := range changes {
		fmt.Println(c.Kind, c.Key, c.New().UID, c.New().ResourceVersion)
	}
	// Output:
	// Added db u1 4
	// Added web u2 7
	// Updated db u1 11
	// Deleted web u2 7
	// Added web u3 12
}

// A list need not repeat objects that the store holds. If one of them was deleted meanwhile, the
// error names it, and the caller has to list again.
func ExampleObjectError() {
	s := store.Must(store.New(object.Meta[*corev1.Node](), store.Options[*corev1.Node]{}))
	_ = s.Set(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "u1", ResourceVersion: "7"}})
	list := object.List[*corev1.Node]{Mark: object.Mark{Version: "20"}, Items: []object.Item[*corev1.Node]{
		{Key: object.Key{Name: "node-1"}, UID: "u1", Version: "7", Held: true},
	}}
	s.Delete(object.Key{Name: "node-1"})

	_, err := s.Apply(&object.Batch[*corev1.Node]{
		Changes: []object.Change[*corev1.Node]{{Kind: object.Replaced, List: &list}},
	}, nil)
	var failed *store.ObjectError
	if errors.As(err, &failed) && errors.Is(err, store.ErrNotHeld) {
		fmt.Println("list again: the store no longer holds", failed.Key)
	}
	// Output: list again: the store no longer holds node-1
}

// Replace makes a list the whole content, in one step.
func ExampleStore_Replace() {
	s := store.Must(store.New(object.Meta[*corev1.Node](), store.Options[*corev1.Node]{}))
	node := func(name string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	_ = s.Replace("10", node("node-1"), node("node-2"))
	_ = s.Replace("20", node("node-2"), node("node-3"))

	snap := s.Snapshot()
	defer snap.Release()
	for node := range snap.Sorted() {
		fmt.Println(node.Name, "at version", snap.Version())
	}
	// Output:
	// node-2 at version 20
	// node-3 at version 20
}

// An object that is held in a compact form is not decoded for its UID.
func ExampleStore_UIDOf() {
	s := store.Must(store.New(object.Meta[*corev1.Node](), store.Options[*corev1.Node]{}))
	_ = s.Set(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "u1"}})

	fmt.Println(s.UIDOf(object.Key{Name: "node-1"}))
	// Output: u1 true
}

// Held reports whether an object has to be decoded at all.
func ExampleStore_Held() {
	s := store.Must(store.New(object.Meta[*corev1.Node](), store.Options[*corev1.Node]{}))
	_ = s.Set(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "u1", ResourceVersion: "7"}})

	key := object.Key{Name: "node-1"}
	fmt.Println(s.Held(key, "u1", "7"), s.Held(key, "u1", "8"), s.Held(key, "u2", "7"))
	// Output: true false false
}

// Diff returns what a reader missed between two snapshots.
func ExampleDiff() {
	s := store.Must(store.New(object.Meta[*corev1.Node](), store.Options[*corev1.Node]{}))
	node := func(name, version string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u", ResourceVersion: version}}
	}
	_ = s.Replace("10", node("node-1", "1"), node("node-2", "2"), node("node-3", "3"))
	before := s.Snapshot()
	defer before.Release()

	_ = s.Set(node("node-2", "11"))
	_ = s.Set(node("node-2", "12"))
	s.Delete(object.Key{Name: "node-3"})
	_ = s.Set(node("node-4", "13"))
	after := s.Snapshot()
	defer after.Release()

	for c := range store.Diff(before, after) {
		switch c.Kind {
		case object.Added:
			fmt.Println("added", c.Key, c.New().ResourceVersion)
		case object.Updated:
			fmt.Println("updated", c.Key, c.Old().ResourceVersion, "to", c.New().ResourceVersion)
		case object.Deleted:
			fmt.Println("deleted", c.Key, "last seen as", c.Old().ResourceVersion)
		}
	}
	// Unordered output:
	// updated node-2 2 to 12
	// deleted node-3 last seen as 3
	// added node-4 13
}

// Pages of a snapshot have no gaps and no repeats, whatever happens to the store between
// them.
func ExampleSnapshot_After() {
	s := store.Must(store.New(object.Meta[*corev1.Node](), store.Options[*corev1.Node]{}))
	for _, name := range []string{"node-1", "node-2", "node-3", "node-4", "node-5"} {
		_ = s.Set(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	snap := s.Snapshot()
	defer snap.Release()

	var last object.Key // the zero Key is before all others
	for {
		page := slices.Collect(snap.After(last, 2))
		if len(page) == 0 {
			break
		}
		last = object.Key{Name: page[len(page)-1].Name}
		fmt.Println("page of", len(page), "up to", last)
		s.Delete(last)
	}
	// Output:
	// page of 2 up to node-2
	// page of 2 up to node-4
	// page of 1 up to node-5
}

// Keys reads no object. Here it finds what a program keeps for objects that were deleted.
func ExampleStore_Keys() {
	s := store.Must(store.New(object.Meta[*corev1.Node](), store.Options[*corev1.Node]{}))
	_ = s.Replace("10", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}})
	load := map[object.Key]float64{{Name: "node-1"}: 0.5, {Name: "node-2"}: 0.7}

	stale := maps.Clone(load)
	for key := range s.Keys() {
		delete(stale, key)
	}
	fmt.Println(stale)
	// Output: map[node-2:0.7]
}

func ExampleSnapshot_Namespace() {
	s := store.Must(store.New(object.Meta[*corev1.Pod](), store.Options[*corev1.Pod]{}))
	for _, k := range []object.Key{{Namespace: "shop", Name: "web"}, {Namespace: "bank", Name: "web"}, {Namespace: "shop", Name: "db"}} {
		_ = s.Set(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: k.Name}})
	}
	snap := s.Snapshot()
	defer snap.Release()

	for pod := range snap.Namespace("shop") {
		fmt.Println(pod.Name)
	}
	// Unordered output:
	// db
	// web
}

// All, Keys and Namespace are iterators without order: nothing is copied or sorted.
func ExampleSnapshot_All() {
	s := store.Must(store.New(object.Meta[*corev1.Node](), store.Options[*corev1.Node]{}))
	for _, name := range []string{"node-2", "node-1", "node-3"} {
		_ = s.Set(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	snap := s.Snapshot()
	defer snap.Release()

	for node := range snap.All() {
		fmt.Println(node.Name)
	}
	// Unordered output:
	// node-1
	// node-2
	// node-3
}

// Sorted yields the objects in the order of their keys. A loop may end early.
func ExampleSnapshot_Sorted() {
	s := store.Must(store.New(object.Meta[*corev1.Node](), store.Options[*corev1.Node]{}))
	for _, name := range []string{"node-2", "node-1", "node-3"} {
		_ = s.Set(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	snap := s.Snapshot()
	defer snap.Release()

	for node := range snap.Sorted() {
		fmt.Println(node.Name)
		if node.Name == "node-2" {
			break
		}
	}
	// Output:
	// node-1
	// node-2
}

// A store of several namespaces has a mark for each.
func ExampleSnapshot_Mark() {
	s := store.Must(store.New(object.Meta[*corev1.Pod](), store.Options[*corev1.Pod]{}))
	_, _ = s.Apply(&object.Batch[*corev1.Pod]{Marks: []object.Mark{
		{Scope: "shop", Version: "120"},
		{Scope: "bank", Version: "95"},
	}}, nil)

	snap := s.Snapshot()
	defer snap.Release()
	fmt.Println(snap.Mark("shop").Version, snap.Mark("bank").Version)
	fmt.Println(snap.Mark("shop").Reached(object.Mark{Scope: "shop", Version: "121"}))
	// Output:
	// 120 95
	// false
}

// Marks reports how far each scope is.
func ExampleSnapshot_Marks() {
	s := store.Must(store.New(object.Meta[*corev1.Pod](), store.Options[*corev1.Pod]{}))
	_, _ = s.Apply(&object.Batch[*corev1.Pod]{Marks: []object.Mark{
		{Scope: "shop", Version: "120"},
		{Scope: "bank", Version: "95"},
	}}, nil)

	s.View(func(pods store.Snapshot[*corev1.Pod]) {
		for mark := range pods.Marks() {
			fmt.Println(mark.Scope, "is at", mark.Version)
		}
	})
	// Unordered output:
	// shop is at 120
	// bank is at 95
}

// View is the cheapest snapshot, for a short read.
func ExampleStore_View() {
	s := store.Must(store.New(object.Meta[*corev1.Node](), store.Options[*corev1.Node]{}))
	_ = s.Set(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}})

	s.View(func(nodes store.Snapshot[*corev1.Node]) {
		for node := range nodes.All() {
			fmt.Println(node.Name)
		}
	})
	// Output: node-1
}

// An object on which an index function fails is stored without a value in that index.
func ExampleIndexError() {
	byPort := store.NewMultiIndex("port", func(s *corev1.Service, add func(int)) error {
		port, err := strconv.Atoi(s.Annotations["example.com/port"])
		if err == nil {
			add(port)
		}
		return err
	})
	s := store.Must(store.New(object.Meta[*corev1.Service](), store.Options[*corev1.Service]{
		Indexes:      []store.AnyIndex[*corev1.Service]{byPort},
		OnIndexError: func(e *store.IndexError) { fmt.Printf("%s has no %s: %v\n", e.Key, e.Index, e.Cause) },
	}))
	_ = s.Replace("10", &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", Annotations: map[string]string{"example.com/port": "http"},
	}})
	fmt.Println(s.Len(), "object")
	// Output:
	// shop/web has no port: strconv.Atoi: parsing "http": invalid syntax
	// 1 object
}

func ExampleStore_Stats() {
	zone := store.NewMultiIndex("zone", func(n *corev1.Node, add func(string)) error {
		z, ok := n.Labels[corev1.LabelTopologyZone]
		if !ok {
			return fmt.Errorf("no label %s", corev1.LabelTopologyZone)
		}
		add(z)
		return nil
	})
	s := store.Must(store.New(object.Meta[*corev1.Node](), store.Options[*corev1.Node]{
		Indexes: []store.AnyIndex[*corev1.Node]{zone},
	}))
	_ = s.Replace("10",
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{corev1.LabelTopologyZone: "west"}}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-2"}},
	)

	stats := s.Stats()
	fmt.Println(stats.Objects, "objects at", stats.Marks[0].Version)
	var retained []store.PinStats = stats.Pins
	fmt.Println(len(retained), "superseded revisions are retained")
	for _, x := range stats.Indexes {
		fmt.Println(x.Name, x.Values, "value,", x.Failures, "failure:", x.LastFailure)
	}
	// Output:
	// 2 objects at 10
	// 0 superseded revisions are retained
	// zone 1 value, 1 failure: store: object "node-2" in index "zone": no label topology.kubernetes.io/zone
}

// What the server has and could not be decoded is part of a snapshot: the mirror is not complete without.
func ExampleSnapshot_Unreadable() {
	s := store.Must(store.New(object.Meta[*corev1.Pod](), store.Options[*corev1.Pod]{}))
	list := &object.List[*corev1.Pod]{Mark: object.Mark{Version: "7"}, Items: []object.Item[*corev1.Pod]{
		{Key: object.RawKey("shop/web"), UID: "u1", Version: "5", Err: errors.New("invalid quantity")},
	}}
	if _, err := s.Apply(&object.Batch[*corev1.Pod]{Changes: []object.Change[*corev1.Pod]{{Kind: object.Replaced, List: list}}}, nil); err != nil {
		fmt.Println(err)
	}
	s.View(func(snap store.Snapshot[*corev1.Pod]) {
		bad, ok := snap.Unreadable(object.RawKey("shop/web"))
		fmt.Println(snap.Len(), snap.Unreadables(), ok, bad.Version, bad.Cause)
	})
	// Output:
	// 0 1 true 5 invalid quantity
}
