package main

import (
	"bytes"
	"context"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/bench/pods"
)

// served starts a replay server in this process.
func served(t *testing.T, objects int) address {
	t.Helper()
	srv := &http.Server{Handler: newReplayHandler(objects)}
	addr, err := listen(srv)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	return addr
}

// TestObjectsAreTheSameByEveryWay receives the same objects in every way, encoding and protocol
// with client-go.
func TestObjectsAreTheSameByEveryWay(t *testing.T) {
	const objects = 1_200 // three pages of pods, two of custom resources
	addr := served(t, objects)
	sums := map[string][2]uint64{} // by resource
	for _, r := range []replay{
		{Resource: podResource, Encoding: protobufEncoding, Way: byList},
		{Resource: podResource, Encoding: protobufEncoding, Way: byList, TLS: true},
		{Resource: podResource, Encoding: protobufEncoding, Way: byPages},
		{Resource: podResource, Encoding: protobufEncoding, Way: byStream},
		{Resource: podResource, Encoding: protobufEncoding, Way: byStream, TLS: true},
		{Resource: podResource, Encoding: jsonEncoding, Way: byList},
		{Resource: podResource, Encoding: jsonEncoding, Way: byPages},
		{Resource: podResource, Encoding: jsonEncoding, Way: byStream},
		{Resource: releaseResource, Encoding: jsonEncoding, Way: byList},
		{Resource: releaseResource, Encoding: jsonEncoding, Way: byPages},
		{Resource: releaseResource, Encoding: jsonEncoding, Way: byStream},
	} {
		r.Address = addr
		name := job{Replay: r}.name()
		var n int
		var got [2]uint64
		err := newClientGo(r).all(context.Background(), func(a arrived) {
			n++
			got[0] += a.digest()
			got[1] += content(a.object)
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if n != r.objects(objects) {
			t.Errorf("%s: %d objects; want %d", name, n, r.objects(objects))
		}
		if first, ok := sums[r.Resource]; ok && first != got {
			t.Errorf("%s: objects differ from those of the first way", name)
		}
		sums[r.Resource] = got
	}
}

// TestListsInChunksAreThoseOfTheSerializer compares bytes.
func TestListsInChunksAreThoseOfTheSerializer(t *testing.T) {
	info, err := serializer(protobufEncoding)
	if err != nil {
		t.Fatal(err)
	}
	left := int64(70_000)
	all := podEncoders{pods.NewPlan(pods.Options{Objects: 2_000})}
	for _, e := range []encoders{all, metadataEncoders{all}} {
		for _, c := range []struct {
			from, to int
			meta     metav1.ListMeta
		}{
			{0, 2_000, metav1.ListMeta{ResourceVersion: "41007000"}},
			{500, 1_500, metav1.ListMeta{ResourceVersion: "7", Continue: "2", RemainingItemCount: &left}},
			{3, 4, metav1.ListMeta{}},
		} {
			enc := e.encoder(info.Serializer)
			var want bytes.Buffer
			if err := enc.Encode(e.list(c.from, c.to, c.meta), &want); err != nil {
				t.Fatal(err)
			}
			got, err := protobufList(e, enc, c.from, c.to, c.meta)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want.Bytes()) {
				t.Errorf("%T, %d to %d: %d bytes differ from the serializer's %d", e, c.from, c.to, len(got), want.Len())
			}
		}
	}
}

// TestDroppedFieldsAreMissing checks client-go's objects, with which Tarn's are compared.
func TestDroppedFieldsAreMissing(t *testing.T) {
	addr := served(t, 1_000)
	for _, w := range []way{byList, byStream} {
		for _, drop := range []bool{false, true} {
			r := replay{Address: addr, Resource: podResource, Encoding: protobufEncoding, Way: w, Drop: drop}
			with := 0
			err := newClientGo(r).all(context.Background(), func(a arrived) {
				if len(a.object.GetManagedFields()) > 0 {
					with++
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if want := map[bool]int{false: 1_000, true: 0}[drop]; with != want {
				t.Errorf("%s, drop %v: %d objects have managed fields; want %d", w, drop, with, want)
			}
		}
	}
}

// TestEventsAreOneForEachObject counts them in both encodings.
func TestEventsAreOneForEachObject(t *testing.T) {
	addr := served(t, 1_000)
	var sums []uint64
	for _, enc := range []string{protobufEncoding, jsonEncoding} {
		r := replay{Address: addr, Resource: podResource, Encoding: enc, Way: byEvents}
		keys := map[string]bool{}
		var sum uint64
		err := newClientGo(r).events(context.Background(), func(a arrived) {
			keys[a.key.String()] = true
			sum += a.brief() ^ content(a.object)
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(keys) != 1_000 {
			t.Errorf("%s: events of %d objects; want 1,000", enc, len(keys))
		}
		sums = append(sums, sum)
	}
	if sums[0] != sums[1] {
		t.Error("the events of the two encodings differ")
	}
}

func TestBeyondIsWhatIsNeitherOldNorReceived(t *testing.T) {
	g := &collections{notes: []note{{live: 150, received: 0}, {live: 400, received: 3}, {live: 500, received: 4}}}
	if got := g.beyond(100, 90); got != 50 {
		t.Errorf("beyond is %v; want 50: 150-100, 400-100-270, 500-100-360", got)
	}
}
