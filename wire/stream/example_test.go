package stream_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
)

// shopServer has two pods: a list in two pages, and a watch of three events.
func shopServer() (*wire.API[*corev1.Pod], func()) {
	const (
		web = `{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"shop","name":"web","uid":"u1","resourceVersion":"7","managedFields":[{"manager":"kubelet"}]},"spec":{"nodeName":"node-1"}}`
		db  = `{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"shop","name":"db","uid":"u2","resourceVersion":"9"},"spec":{"nodeName":"node-2"}}`
	)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		page := func(item, more string) {
			fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9","continue":%q},"items":[%s]}`, more, item)
		}
		switch q := r.URL.Query(); {
		case q.Has("watch"):
			fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", web)
			fmt.Fprintf(w, `{"type":"DELETED","object":%s}`+"\n", db)
			fmt.Fprint(w, `{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"12"}}}`)
		case q.Get("continue") == "" && q.Has("limit"):
			page(web, "page-2")
		case q.Get("continue") == "page-2":
			page(db, "")
		default:
			page(web+","+db, "")
		}
	}))
	base, _ := url.Parse(s.URL)
	c, err := wire.NewWithTransport(base, nil, wire.Options{})
	if err != nil {
		panic(err)
	}
	return wire.For(c, wire.MustOf[*corev1.Pod]()), func() { c.CloseIdleConnections(); s.Close() }
}

// A list is decoded while it arrives. Objects that the receiver holds are not decoded.
func ExampleSource_List() {
	pods, done := shopServer()
	defer done()
	src, err := stream.NewSource(pods, object.Selection{Namespace: "shop"}, stream.Options{
		Drop: []object.FieldPath{object.ManagedFields},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	held := func(key object.Key, uid object.UID, version object.Version) bool {
		return key.Name == "db" && uid == "u2" && version == "9"
	}
	page, err := src.List(context.Background(), object.ListOptions{Version: "0"}, &object.Intake[*corev1.Pod]{Held: held}, func(item object.Item[*corev1.Pod]) error {
		switch {
		case item.Held:
			fmt.Println(item.Key, "is unchanged")
		case item.Err != nil:
			fmt.Println(item.Key, "cannot be decoded:", item.Err)
		default:
			fmt.Println(item.Key, "runs on", item.Object.Spec.NodeName, "managed fields:", len(item.Object.ManagedFields))
		}
		return nil
	})
	fmt.Println(src.Resource(), "at version", page.Version, err)
	// Output:
	// shop/web runs on node-1 managed fields: 0
	// shop/db is unchanged
	// pods at version 9 <nil>
}

// Next returns all events that have arrived.
func ExampleSource_Watch() {
	pods, done := shopServer()
	defer done()
	src, err := stream.NewSource(pods, object.Selection{}, stream.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	stream, err := src.Watch(context.Background(), object.WatchOptions{Version: "9", Bookmarks: true}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stream.Close()
	for {
		events, err := stream.Next()
		if err == io.EOF {
			fmt.Println("the server ended the watch")
			return
		} else if err != nil {
			fmt.Println(err)
			return
		}
		for _, ev := range events {
			switch {
			case ev.Bookmark:
				fmt.Println("Bookmark", ev.Item.Version)
			case ev.Err != nil:
				fmt.Println("Error", ev.Err)
			default:
				fmt.Println(ev.Kind, ev.Item.Key, ev.Item.Version)
			}
		}
	}
	// Output:
	// Added shop/web 7
	// Deleted shop/db 9
	// Bookmark 12
	// the server ended the watch
}

// ListAll reads all pages of a list. Collect reads them into memory.
func ExampleSource_ListAll() {
	pods, done := shopServer()
	defer done()
	src, err := stream.NewSource(pods, object.Selection{}, stream.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	n := 0
	page, err := src.ListAll(context.Background(), object.ListOptions{Limit: 1}, nil,
		func(object.Item[*corev1.Pod]) error { n++; return nil },
		func(cause error) { n = 0 }, // a continue token expired: all items are delivered again
	)
	fmt.Println(n, "pods at", page.Version, err)

	list, err := src.Collect(context.Background(), object.ListOptions{})
	fmt.Println(len(list.Items), "pods at", list.Version, err)
	// Output:
	// 2 pods at 9 <nil>
	// 2 pods at 9 <nil>
}

// A lazy source reads key, UID and version and leaves objects encoded.
func ExampleSource_Decode() {
	pods, done := shopServer()
	defer done()
	src, err := stream.NewSource(pods, object.Selection{}, stream.Options{Lazy: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = src.List(context.Background(), object.ListOptions{}, nil, func(item object.Item[*corev1.Pod]) error {
		if item.Key.Name != "web" {
			fmt.Println(item.Key, "has", len(item.Raw), "bytes")
			return nil
		}
		pod, err := src.Decode(item.Raw)
		if err != nil {
			return err
		}
		fmt.Println(item.Key, "runs on", pod.Spec.NodeName)
		return nil
	})
	fmt.Println(err)
	// Output:
	// shop/web runs on node-1
	// shop/db has 138 bytes
	// <nil>
}

func ExampleList() {
	pods, done := shopServer()
	defer done()
	list, page, err := stream.List(context.Background(), pods, object.ListOptions{Selection: object.Selection{Namespace: "shop"}})
	fmt.Println(len(list), list[0].Name, page.Version, err)
	// Output: 2 web 9 <nil>
}

func ExampleWatch() {
	pods, done := shopServer()
	defer done()
	st, err := stream.Watch(context.Background(), pods, object.WatchOptions{Version: "6"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer st.Close()
	for {
		events, err := st.Next()
		for _, ev := range events {
			fmt.Println(ev.Kind, ev.Item.Key, ev.Bookmark)
		}
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	// Output:
	// Added shop/web false
	// Deleted shop/db false
	// None  true
	// EOF
}
