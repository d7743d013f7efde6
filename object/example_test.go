package object_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/object"
)

func ExampleKey() {
	k := object.Key{Namespace: "shop", Name: "web"}
	fmt.Println(k)
	fmt.Println(object.Key{Name: "node-1"})
	fmt.Println(k == object.Key{Namespace: "shop", Name: "web"}, k.IsZero(), object.Key{}.IsZero())
	// Output:
	// shop/web
	// node-1
	// true false true
}

// Keys sort by namespace first, so the keys of a namespace are adjacent.
func ExampleKey_Compare() {
	keys := []object.Key{
		{Namespace: "shop", Name: "web"},
		{Namespace: "shop-test", Name: "api"},
		{Namespace: "shop", Name: "api"},
		{Name: "node-1"},
	}
	slices.SortFunc(keys, object.Key.Compare)
	fmt.Println(keys)
	// Output: [node-1 shop/api shop/web shop-test/api]
}

func ExampleParse() {
	k, err := object.Parse("shop/web")
	fmt.Printf("%q %q %v\n", k.Namespace, k.Name, err)

	_, err = object.Parse("shop/web/extra")
	fmt.Println(err)
	fmt.Println(errors.Is(err, object.ErrKey))
	// Output:
	// "shop" "web" <nil>
	// object: not a key: "shop/web/extra" has more than one slash; want "namespace/name"
	// true
}

// RawKey holds the keys of any key function.
func ExampleRawKey() {
	for _, s := range []string{"shop/web", "shop/web/extra", "/odd", ""} {
		k := object.RawKey(s)
		fmt.Printf("%q %q back: %q\n", k.Namespace, k.Name, k)
	}
	// Output:
	// "shop" "web" back: "shop/web"
	// "shop" "web/extra" back: "shop/web/extra"
	// "" "/odd" back: "/odd"
	// "" "" back: ""
}

// Versions compare as decimals of any length; others are not comparable.
func ExampleVersion_Compare() {
	show := func(a, b object.Version) {
		order, ok := a.Compare(b)
		fmt.Println(a, b, order, ok)
	}
	show("99", "100")
	show("18446744073709551617", "18446744073709551616")
	show("abc", "100")
	show("0100", "100")
	// Output:
	// 99 100 -1 true
	// 18446744073709551617 18446744073709551616 1 true
	// abc 100 0 false
	// 0100 100 0 false
}

// After and NotAfter are both false if the order is unknown.
func ExampleVersion_After() {
	held, received := object.Version("100"), object.Version("99")
	fmt.Println(received.After(held), received.NotAfter(held))

	opaque := object.Version("abc")
	fmt.Println(opaque.After(held), opaque.NotAfter(held), opaque.NotAfter(opaque))
	// Output:
	// false true
	// false false true
}

func ExampleVersion_Known() {
	for _, v := range []object.Version{"", "0", "7", "abc"} {
		fmt.Printf("%q known: %v, ordered: %v\n", v, v.Known(), v.Ordered())
	}
	// Output:
	// "" known: false, ordered: false
	// "0" known: false, ordered: false
	// "7" known: true, ordered: true
	// "abc" known: true, ordered: false
}

func ExampleMark_Reached() {
	written := object.Mark{Version: "1200"}
	fmt.Println(object.Mark{Version: "1199"}.Reached(written))
	fmt.Println(object.Mark{Version: "1200"}.Reached(written))
	// etcd was restored from a backup: versions started over in a new epoch.
	fmt.Println(object.Mark{Epoch: 1, Version: "300"}.Reached(written))
	// A watch of one namespace says nothing about the other namespaces.
	fmt.Println(object.Mark{Scope: "shop", Version: "5000"}.Reached(written))
	// Output:
	// false
	// true
	// true
	// false
}

func ExampleScope_Covers() {
	k := object.Key{Namespace: "shop", Name: "web"}
	fmt.Println(object.Everything.Covers(k), object.Scope("shop").Covers(k), object.Scope("bank").Covers(k))
	// Output: true true false
}

func ExampleMeta() {
	acc := object.Meta[*corev1.Pod]()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: "u-1", ResourceVersion: "41",
		Labels: map[string]string{"app": "web"},
	}}
	key, err := acc.Key(p)
	fmt.Println(key, err, acc.UIDOf(p), acc.VersionOf(p), acc.LabelsOf(p))
	// Output: shop/web <nil> u-1 41 map[app:web]
}

// Keyed works for values of any type that have a key.
func ExampleKeyed() {
	type user struct{ Org, Login string }
	acc := object.Keyed(func(u user) object.Key { return object.Key{Namespace: u.Org, Name: u.Login} })
	key, err := acc.Key(user{"acme", "wile"})
	fmt.Println(key, err)
	// Output: acme/wile <nil>
}

// A custom accessor defines key, UID, version and labels of a type.
func ExampleAccessor() {
	type row struct {
		ID  string
		Rev int
	}
	acc := object.Accessor[row]{
		Key:     func(r row) (object.Key, error) { return object.Parse(r.ID) },
		Version: func(r row) object.Version { return object.Version(fmt.Sprint(r.Rev)) },
	}
	r := row{ID: "shop/web", Rev: 3}
	key, err := acc.Key(r)
	fmt.Println(key, err, acc.VersionOf(r))
	fmt.Printf("%q %v\n", acc.UIDOf(r), acc.LabelsOf(r))

	fmt.Println(object.Accessor[row]{}.Valid())
	// Output:
	// shop/web <nil> 3
	// "" map[]
	// object: accessor without a Key function; use object.Meta for Kubernetes objects or object.Keyed for others
}

func ExampleKeyOf() {
	key, err := object.KeyOf(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}})
	fmt.Println(key, err)
	// Output: shop/web <nil>
}

// The error names the type but never contains the value, which may be a secret.
func ExampleKeyError() {
	_, err := object.KeyOf([]byte("hunter2"))
	fmt.Println(err)

	var keyErr *object.KeyError
	fmt.Println(errors.As(err, &keyErr), errors.Is(err, object.ErrNoMetadata))
	// Output:
	// object: no key for a value of type []uint8: it has no object metadata; pass API objects as pointers
	// true true
}

func ExampleTombstone() {
	t := object.Tombstone[string]{Key: object.RawKey("shop/web"), Object: "the last known state"}
	fmt.Println(t.Key, "was", t.Object)
	// Output: shop/web was the last known state
}

func ExampleItemOf() {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u-1", ResourceVersion: "41"}}
	item, err := object.ItemOf(object.Meta[*corev1.Pod](), p)
	fmt.Println(item.Key, item.UID, item.Version, item.Object == p, err)
	// Output: shop/web u-1 41 true <nil>
}

// An item is decoded, already held by the receiver, or undecodable.
func ExampleItem() {
	for _, item := range []object.Item[string]{
		{Key: object.RawKey("shop/web"), Version: "41", Value: object.Decoded("decoded")},
		{Key: object.RawKey("shop/api"), Version: "17", Held: true},
		{Key: object.RawKey("shop/db"), Version: "38", Err: errors.New("unexpected end of JSON"), Raw: []byte("{")},
	} {
		switch {
		case item.Err != nil:
			fmt.Printf("%v at %v: %v in %q\n", item.Key, item.Version, item.Err, item.Raw)
		case item.Held:
			fmt.Printf("%v at %v: as held\n", item.Key, item.Version)
		default:
			fmt.Printf("%v at %v: %v\n", item.Key, item.Version, item.Object)
		}
	}
	// Output:
	// shop/web at 41: decoded
	// shop/api at 17: as held
	// shop/db at 38: unexpected end of JSON in "{"
}

func ExampleListOf() {
	acc := object.Keyed(object.RawKey)
	list, err := object.ListOf(acc, "41", "shop/web", "shop/api")
	fmt.Println(len(list.Items), "items at version", list.Version, err)
	fmt.Println(list.Reached(object.Mark{Version: "40"}))
	// Output:
	// 2 items at version 41 <nil>
	// true
}

func ExampleEvent() {
	for _, ev := range []object.Event[string]{
		{Kind: object.Updated, Item: object.Item[string]{Key: object.RawKey("shop/web"), Version: "42", Value: object.Decoded("new")}},
		{Bookmark: true, Item: object.Item[string]{Version: "50"}, InitialEnd: true},
		{Err: errors.New("too old resource version")},
		{}, // an event type unknown to this version of Tarn
	} {
		switch {
		case ev.Kind != 0:
			fmt.Println(ev.Kind, ev.Item.Key, ev.Item.Object)
		case ev.Bookmark:
			fmt.Println("bookmark", ev.Item.Version, ev.InitialEnd)
		case ev.Err != nil:
			fmt.Println("error:", ev.Err)
		default:
			fmt.Println("skipped")
		}
	}
	// Output:
	// Updated shop/web new
	// bookmark 50 true
	// error: too old resource version
	// skipped
}

// A store reports what a batch changed.
func ExampleChange() {
	c := object.Change[string]{Kind: object.Updated, Key: object.RawKey("shop/web"), Version: "42",
		Value: object.Decoded("new"), Prior: object.Decoded("old")}
	fmt.Println(c.Kind, c.Key, c.Version, c.Old(), c.New())
	// Output: Updated shop/web 42 old new
}

// The value of an object that could not be decoded.
func ExampleUnreadable() {
	value := object.Value[*corev1.Pod]{Encoded: object.Unreadable[*corev1.Pod]{Err: errors.New("unexpected end of JSON input")}}
	if bad, ok := value.Encoded.(object.Unreadable[*corev1.Pod]); ok {
		fmt.Println(bad.Err)
	}
	// Output: unexpected end of JSON input
}

// A source that decodes objects itself prepares them in the same goroutine.
func ExampleIntake() {
	in := object.Intake[*corev1.Pod]{
		Transform: func(p *corev1.Pod) (*corev1.Pod, error) {
			p.Annotations = nil // the transform owns this pod
			return p, nil
		},
	}
	item, _ := object.ItemOf(object.Meta[*corev1.Pod](), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "web", Annotations: map[string]string{"note": "long"},
	}})
	in.Prepare(&item)
	fmt.Println(item.Object.Annotations == nil, item.Err)
	// Output: true <nil>
}

// A relist requests a state that is not older than the last one seen.
func ExampleListOptions() {
	o := object.ListOptions{
		Selection: object.Selection{Namespace: "shop", Labels: "app=web"},
		Version:   "41", Match: object.NotOlderThan, Limit: 500,
	}
	fmt.Println(o.Namespace, o.Labels, o.Version, o.Match, o.Limit)
	// Output: shop app=web 41 NotOlderThan 500
}

// A streaming list: initial events first, then changes.
func ExampleWatchOptions() {
	o := object.WatchOptions{
		Match: object.NotOlderThan, InitialEvents: true, Bookmarks: true, Timeout: 5 * time.Minute,
	}
	fmt.Println(o.Match, o.InitialEvents, o.Bookmarks, o.Timeout)
	// Output: NotOlderThan true true 5m0s
}

func ExampleResource() {
	r := object.Resource{Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Namespaced: true}
	fmt.Println(r)
	fmt.Println(r.GVR())
	fmt.Println(r.GVK())
	fmt.Println(object.Resource{Version: "v1", Resource: "nodes", Kind: "Node"})
	// Output:
	// deployments.apps
	// apps/v1, Resource=deployments
	// apps/v1, Kind=Deployment
	// nodes
}
