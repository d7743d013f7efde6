package stream

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/internal/wiretest"
)

var rewrite = flag.Bool("rewrite", false, "record the golden bytes again with apimachinery's encoders")

// shape is one kind of response.
type shape struct {
	name  string
	media string
	body  []byte
	read  func(t *testing.T, c *wire.Client) string // describes what is read
}

// shapes are recorded in testdata/golden: name.bin has the bytes, and name.txt describes what is
// read from them.
func shapes() []shape {
	partial := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: "42"}}
	partial.APIVersion, partial.Kind = "meta.k8s.io/v1", "PartialObjectMetadataList"
	m := metav1.PartialObjectMetadata{ObjectMeta: pod(1).ObjectMeta}
	m.APIVersion, m.Kind = "meta.k8s.io/v1", "PartialObjectMetadata"
	partial.Items = []metav1.PartialObjectMetadata{m}
	left := int64(7)
	pods := podList(2)
	pods.Continue, pods.RemainingItemCount = "token", &left
	expired := apierrors.NewResourceExpired("too old resource version").ErrStatus
	mark := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "77", Annotations: map[string]string{initialEventsEnd: "true"}}}

	all := []shape{
		{"widgets.list.json", wiretest.JSON, wireBytes(wire.JSON, widgetList(2)), func(t *testing.T, c *wire.Client) string {
			return tellList(sourceOf(t, c, wire.Unstructured(widgetResource), Options{}))
		}},
		{"widgets.watch.json", wiretest.JSON, encodeEvent(wire.JSON, "ADDED", widget(3)), func(t *testing.T, c *wire.Client) string {
			return tellWatch(t, sourceOf(t, c, wire.Unstructured(widgetResource), Options{}))
		}},
	}
	for _, e := range encodings {
		tellPods := func(t *testing.T, c *wire.Client) string { return tellList(sourceOf(t, c, podsAs(e), Options{})) }
		all = append(all,
			shape{"pods.list." + string(e), mediaOf(e), wireBytes(e, pods), tellPods},
			shape{"empty.list." + string(e), mediaOf(e), wireBytes(e, podList(0)), tellPods},
			shape{"status.list." + string(e), mediaOf(e), wireBytes(e, &expired), tellPods},
			shape{"metadata.list." + string(e), mediaOf(e), wireBytes(e, partial), func(t *testing.T, c *wire.Client) string {
				return tellList(sourceOf(t, c, wire.Metadata(podResource), Options{}))
			}},
			shape{"pods.watch." + string(e), mediaOf(e), bytes.Join([][]byte{
				encodeEvent(e, "ADDED", pod(1)), encodeEvent(e, "MODIFIED", pod(2)), encodeEvent(e, "DELETED", pod(3)),
				encodeEvent(e, "BOOKMARK", mark), encodeEvent(e, "ERROR", &expired),
			}, nil), func(t *testing.T, c *wire.Client) string {
				return tellWatch(t, sourceOf(t, c, podsAs(e), Options{}))
			}},
		)
	}
	return all
}

func tellItem[T any](item object.Item[T]) string {
	return fmt.Sprintf("%s uid=%s version=%s labels=%v err=%v", item.Key, item.UID, item.Version, metaOf(item.Object).GetLabels(), item.Err)
}

func tellList[T any](s *Source[T]) string {
	var b strings.Builder
	items, page, err := collect(s, nil)
	for _, item := range items {
		fmt.Fprintln(&b, tellItem(item))
	}
	fmt.Fprintf(&b, "page version=%s continue=%s remaining=%d err=%v\n", page.Version, page.Continue, page.Remaining, err)
	return b.String()
}

func tellWatch[T any](t *testing.T, s *Source[T]) string {
	var b strings.Builder
	st := wiretest.Must(s.Watch(t.Context(), object.WatchOptions{}, nil))(t)
	defer st.Close()
	events, err := drain(st)
	for _, ev := range events {
		switch {
		case ev.Bookmark:
			fmt.Fprintf(&b, "Bookmark version=%s initialEnd=%t\n", ev.Item.Version, ev.InitialEnd)
		case ev.Err != nil:
			fmt.Fprintf(&b, "Error %v\n", ev.Err)
		default:
			fmt.Fprintf(&b, "%v %s\n", ev.Kind, tellItem(ev.Item))
		}
	}
	fmt.Fprintf(&b, "end %v\n", err)
	return b.String()
}

// The bytes in testdata are those of apimachinery's encoders, and reading them gives the recorded
// description.
func TestGoldenBytes(t *testing.T) {
	for _, s := range shapes() {
		t.Run(s.name, func(t *testing.T) {
			path := filepath.Join("testdata", "golden", s.name)
			if *rewrite {
				c := bodyClient(t, s.media, func() io.Reader { return bytes.NewReader(s.body) })
				for ext, b := range map[string][]byte{".bin": s.body, ".txt": []byte(s.read(t, c))} {
					if err := os.WriteFile(path+ext, b, 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			recorded := wiretest.Must(os.ReadFile(path + ".bin"))(t)
			if !bytes.Equal(recorded, s.body) {
				t.Error("the encoders write something else now; look at it, then run with -rewrite")
			}
			want := wiretest.Must(os.ReadFile(path + ".txt"))(t)
			c := bodyClient(t, s.media, func() io.Reader { return bytes.NewReader(recorded) })
			if got := s.read(t, c); got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}
