package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/tarnproject/tarn/bench/pods"
	"github.com/tarnproject/tarn/object"
)

// mirrorJobs are the jobs on informers.
var mirrorJobs = map[string]func(job) sample{
	"informer-events":  informerEvents,
	"informer-blocked": informerBlocked,
	"informer-sync":    informerSync,
	"informer-changes": informerChanges,
	"custom-sync":      customSync,
	"informer-relist":  informerRelist,
	"informer-reader":  informerReader,
	"informer-quiet":   informerQuiet,
}

// fed is the number of objects of informers with a feed.
const fed = 20_000

func nothing(pod) {}

// informerEvents sends changes of already decoded objects through the informer to its handlers.
func informerEvents(j job) sample {
	const changes = 2 // of each object
	opts := pods.Options{Objects: min(fed, j.Objects)}
	initial := pods.Generate(opts)
	version := pods.LastVersion(opts)
	events := make([]pod, changes*len(initial))
	parallel(len(initial), func(i int) {
		p := initial[i]
		for c := range changes {
			at := c*len(initial) + i
			p = pods.Next(p, version+1+uint64(at))
			events[at] = p
		}
	})
	// The order differs from the order in memory.
	for c := range changes {
		shuffle(events[c*len(initial):(c+1)*len(initial)], version+1+uint64(c*len(initial)))
	}
	last := events[len(events)-1].ResourceVersion

	f := newFeed(initial, version)
	m := newMirror(j, f)
	var ends sync.WaitGroup
	ends.Add(j.Handlers)
	received := make([]struct {
		n atomic.Int64
		_ [56]byte // avoids false sharing between handlers
	}, j.Handlers)
	for h := range j.Handlers {
		m.handle(nothing, func(p pod) {
			received[h].n.Add(1)
			if p.ResourceVersion == last {
				ends.Done()
			}
		})
	}
	m.start()
	meter := j.begin()
	f.send(events)
	ends.Wait()
	settle()
	s := meter.end(len(events))
	s.Digest = mirrored(m, initial)
	s.Values = map[string]float64{}
	for h := range received {
		n := received[h].n.Load()
		if j.Side == sideClientGo && n != int64(len(events)) {
			fail("handler %d received %d changes; want %d", h, n, len(events))
		}
		s.Values["received"] += float64(n)
	}
	m.stop()
	return s
}

// shuffle reorders the objects and assigns increasing versions.
func shuffle(objs []pod, from uint64) {
	slices.SortFunc(objs, func(a, b pod) int { return strings.Compare(string(a.UID), string(b.UID)) })
	for i, p := range objs {
		p.ResourceVersion = strconv.FormatUint(from+uint64(i), 10)
	}
}

// mirrored returns a digest of the versions of some objects in a mirror.
func mirrored(m mirror, of []pod) (digest uint64) {
	for _, p := range of {
		got := m.get(keyOf(p), p.Namespace+"/"+p.Name)
		if got == nil {
			fail("%s/%s not found", p.Namespace, p.Name)
		}
		digest += arrivedObject(got).digest()
	}
	return digest
}

// informerBlocked changes a thousand objects over and over while the handler does not return
// from its first update, and measures the heap.
func informerBlocked(j job) sample {
	opts := pods.Options{Objects: 1_000}
	initial := pods.Generate(opts)
	version := pods.LastVersion(opts)
	f := newFeed(initial, version)
	m := newMirror(j, f)
	blocked, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	seen := map[object.Key]string{}
	var last atomic.Pointer[string]
	done := make(chan struct{})
	m.handle(nothing, func(p pod) {
		once.Do(func() {
			close(blocked)
			<-release
		})
		seen[keyOf(p)] = p.ResourceVersion
		if want := last.Load(); want != nil && p.ResourceVersion == *want {
			close(done)
		}
	})
	m.start()
	current := slices.Clone(initial)
	change := func(n int) {
		for range n {
			i := int(version % uint64(len(current)))
			version++
			current[i] = pods.Next(current[i], version)
			f.send(current[i : i+1])
		}
	}
	change(1)
	<-blocked
	before := heap()
	n := j.Objects
	change(n)
	final := strconv.FormatUint(version, 10)
	end := current[int((version-1)%uint64(len(current)))]
	for m.get(keyOf(end), end.Namespace+"/"+end.Name).ResourceVersion != final {
		time.Sleep(time.Millisecond)
	}
	settle()
	s := sample{Ops: 1, Live: float64(heap() - before)}
	s.Digest = mirrored(m, initial)
	last.Store(&final)
	close(release)
	<-done
	settle()
	m.stop()
	for _, p := range current {
		if got := seen[keyOf(p)]; got != p.ResourceVersion {
			fail("the handler last received version %q of %s; want %s", got, p.Name, p.ResourceVersion)
		}
	}
	return s
}

// informerSync fills a mirror from the replay server.
func informerSync(j job) sample {
	before := heap()
	m := newMirror(j, nil)
	var added atomic.Int64
	m.handle(func(pod) { added.Add(1) }, nothing)
	meter := j.begin()
	m.start()
	settle()
	s := meter.end(1)
	s.Values = map[string]float64{"rss": float64(peakMemory())}
	s.Live = float64(heap() - before)
	if n := m.len(); n != j.Objects || added.Load() != int64(n) {
		fail("%d objects and %d additions; want %d", n, added.Load(), j.Objects)
	}
	m.stop()
	return s
}

// informerChanges sends a change of every object to a mirror, as fast as it takes them.
func informerChanges(j job) sample {
	m := newMirror(j, nil)
	var changed atomic.Int64
	all := make(chan struct{})
	m.handle(nothing, func(pod) {
		if changed.Add(1) == int64(j.Objects) {
			close(all)
		}
	})
	m.start()
	control(j, fmt.Sprintf("%s?resource=%s&n=%d", changePath, j.Replay.Resource, j.Objects))
	meter := j.begin()
	control(j, sendPath+"?rate=1e9")
	<-all
	settle()
	s := meter.end(j.Objects)
	m.stop()
	return s
}

// informerRelist makes a mirror relist; nothing has changed.
func informerRelist(j job) sample {
	m := newMirror(j, nil)
	var calls atomic.Int64
	count := func(pod) { calls.Add(1) }
	m.handle(count, count)
	m.start()
	calls.Store(0)
	sent := streams(j)
	meter := j.begin()
	control(j, expirePath)
	awaitStream(j, sent+1)
	settle()
	s := meter.end(1)
	s.Values = map[string]float64{"calls": float64(calls.Load())}
	if n := m.len(); n != j.Objects {
		fail("%d objects; want %d", n, j.Objects)
	}
	m.stop()
	return s
}

// informerReader looks up objects during a relist.
func informerReader(j job) sample {
	m := newMirror(j, nil)
	m.handle(nothing, nothing)
	m.start()
	keys := pods.Keys(pods.Options{Objects: j.Objects})
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.Namespace + "/" + k.Name
	}
	sent := streams(j)
	runtime.GC()
	get := func(i int) {
		i = i * 7919 % len(keys)
		if m.get(keys[i], names[i]) == nil {
			fail("%s is not there", names[i])
		}
	}
	if j.Control {
		own := make(map[string]bool, len(names))
		for _, name := range names {
			own[name] = true
		}
		get = func(i int) {
			if !own[names[i*7919%len(names)]] {
				fail("the map has nothing")
			}
		}
	}
	w := watch(get, func() {
		control(j, expirePath)
		awaitStream(j, sent+1)
		time.Sleep(time.Second) // the reader keeps the process busy, so it does not settle
	})
	m.stop()
	return sample{Ops: 1, Values: map[string]float64{"own": float64(w.own), "longest": float64(w.longest)}}
}

// control calls one of the replay server's own paths.
func control(j job, path string) string {
	resp, err := http.Get(j.Replay.Address.Plain + path)
	check(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	check(err)
	if resp.StatusCode != http.StatusOK {
		fail("%s: %s", path, resp.Status)
	}
	return string(body)
}

// streams returns how many streaming lists the server has sent.
func streams(j job) int {
	n, err := strconv.Atoi(control(j, sentPath))
	check(err)
	return n
}

// awaitStream waits until the server has sent n streaming lists.
func awaitStream(j job, n int) {
	for deadline := time.Now().Add(time.Minute); streams(j) < n; {
		if time.Now().After(deadline) {
			fail("%s did not list again", j.Side)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// informerQuiet measures the time from the server's write of a change to the handler on an idle
// informer. The server is in this process, so that both use one clock.
func informerQuiet(j job) sample {
	const frames = 400
	s := newQuietServer(frames)
	defer s.close()
	j.Replay = replay{Resource: podResource, Encoding: protobufEncoding, Way: byList}
	j.Replay.Address.Plain = s.url
	m := newMirror(j, nil)
	got := make(chan int64, 1)
	m.handle(nothing, func(pod) { got <- now() })
	m.start()
	h := new(histogram)
	for i := range frames {
		time.Sleep(2 * time.Millisecond)
		s.frames <- s.encoded[i]
		wrote := <-s.wrote
		if took := <-got - wrote; i >= frames/4 { // the first warm up
			h.add(took)
		}
	}
	m.stop()
	return sample{Ops: 1, Values: map[string]float64{"p50": float64(h.quantile(0.5)), "p99": float64(h.quantile(0.99))}}
}

// quietServer has one pod, and sends a change of it on request.
type quietServer struct {
	url     string
	encoded [][]byte
	frames  chan []byte
	wrote   chan int64
	server  *http.Server
}

func newQuietServer(n int) *quietServer {
	s := &quietServer{frames: make(chan []byte), wrote: make(chan int64, 1)}
	e := podEncoders{pods.NewPlan(pods.Options{Objects: 1})}
	list, err := encode(e, asked{podResource, protobufEncoding, byList})
	check(err)
	info, err := serializer(protobufEncoding)
	check(err)
	for i := range n {
		var frame bytes.Buffer
		check(frameEncoder(e, info, &frame).Encode(&apiwatch.Event{Type: apiwatch.Modified, Object: e.next(0, e.last()+1+uint64(i))}))
		s.encoded = append(s.encoded, frame.Bytes())
	}
	s.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		watched := r.URL.Query().Get("watch") != ""
		a := asked{podResource, protobufEncoding, byList}
		if watched {
			a.way = byEvents
		}
		w.Header().Set("Content-Type", contentType(a))
		if !watched {
			_, _ = w.Write(list[0])
			return
		}
		flush := http.NewResponseController(w)
		_ = flush.Flush()
		for {
			select {
			case <-r.Context().Done():
				return
			case frame := <-s.frames:
				s.wrote <- now()
				_, _ = w.Write(frame)
				_ = flush.Flush()
			}
		}
	})}
	addr, err := listen(s.server)
	check(err)
	s.url = addr.Plain
	return s
}

func (s *quietServer) close() { _ = s.server.Close() }
