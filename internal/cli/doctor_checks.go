package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarnproject/tarn"
	"github.com/tarnproject/tarn/console"
	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/wire"
	"github.com/tarnproject/tarn/wire/stream"
)

const (
	// roundTrips is the number of round trips to measure.
	roundTrips = 5
	// slowTrip is a noticeably slow round trip.
	slowTrip = 300 * time.Millisecond
	// manyObjects is the count from which a mirror's memory matters.
	manyObjects = 50_000
	// bookmarkLead is how long before a watch times out servers send its last bookmark.
	bookmarkLead = 2 * time.Second
	// largeObject is close to etcd's size limit.
	largeObject = 1 << 20
)

// verdict is the severity of a finding.
type verdict string

const (
	fine   verdict = "ok"
	note   verdict = "note"
	broken verdict = "broken"
)

// finding is the result of one check.
type finding struct {
	Check   string  `json:"check"`
	Verdict verdict `json:"verdict"`
	Text    string  `json:"text"`
	Fix     string  `json:"fix,omitempty"`
}

// resourceReport holds the findings about one resource.
type resourceReport struct {
	Resource  string    `json:"resource"`
	Version   string    `json:"version"`
	Namespace string    `json:"namespace,omitempty"`
	Objects   int       `json:"objects"`
	Bytes     int64     `json:"bytes"`
	Findings  []finding `json:"findings"`

	need object.Resource
}

// broken reports whether any finding is broken.
func (c *resourceReport) broken() bool {
	return slices.ContainsFunc(c.Findings, func(f finding) bool { return f.Verdict == broken })
}

// examination is the examination of one resource. It belongs to one goroutine.
type examination struct {
	resourceReport
	client *wire.Client
	source *stream.Source[*unstructured.Unstructured]
	sel    object.Selection
	res    object.Resource
	// wait limits the wait for a bookmark, limit any other request.
	wait, limit time.Duration
}

func (c *resourceReport) find(check string, v verdict, text, fix string) {
	c.Findings = append(c.Findings, finding{check, v, text, fix})
}

// fail records a failed check and what the console says to do about a mirror with that error.
func (p *examination) fail(check string, err error) {
	m := tarn.MirrorStatus{Name: p.Resource, Resource: p.res, State: tarn.Syncing, Cause: err}
	if apierrors.IsNotFound(err) {
		m.State = tarn.Waiting
	}
	m.Informer.Sources = []informer.SourceStatus{{Scope: object.Scope(p.sel.Namespace), Reflector: reflector.Status{Cause: err}}}
	fix := ""
	for _, problem := range console.Problems(tarn.Status{Mirrors: []tarn.MirrorStatus{m}}) {
		fix = problem.Do
	}
	if errors.Is(err, context.DeadlineExceeded) {
		fix += " Or increase --timeout."
	}
	p.find(check, broken, errorText(err), fix)
}

// examine runs all checks and stops when later ones would be meaningless.
func (p *examination) examine(ctx context.Context, verbs []string) {
	for _, verb := range []string{"list", "watch"} {
		if !slices.Contains(verbs, verb) {
			p.find(verb, broken, "the server supports only "+strings.Join(verbs, ", "), "this resource cannot be mirrored")
			return
		}
	}
	if !p.roundTrips(ctx) {
		return
	}
	version, ok := p.list(ctx)
	if !ok {
		return
	}
	p.sharding(ctx)
	p.watch(ctx, version)
}

// sharding finds out whether the server sends only the objects of a shard: it lists one without
// objects.
func (p *examination) sharding(ctx context.Context) {
	const check = "sharding"
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	ignored := false
	page, err := p.source.List(ctx, object.ListOptions{Selection: object.Selection{Shard: object.NewShard(object.ByUID)}, Limit: 1}, nil,
		func(object.Item[*unstructured.Unstructured]) error { ignored = true; return nil })
	switch {
	case err != nil:
		p.fail(check, err)
	case ignored:
		p.find(check, fine, "not by the server; a mirror of a shard receives all objects and drops the others before it decodes them", "")
	case page.Sharded || p.Objects > 0:
		p.find(check, fine, "by the server; a mirror of a shard receives only its objects", "")
	default:
		p.find(check, fine, "unknown, because there are no objects", "")
	}
}

func (p *examination) roundTrips(ctx context.Context) bool {
	var times []time.Duration
	for range roundTrips {
		began := time.Now()
		ctx, cancel := context.WithTimeout(ctx, p.limit)
		_, err := p.client.Request(wire.VerbList).Resource(p.res).Key(object.Key{Namespace: p.sel.Namespace}).Param("limit", "1").Do(ctx)
		cancel()
		if err != nil {
			p.fail("list", err)
			return false
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	middle := times[len(times)/2]
	text := fmt.Sprintf("%s (%s to %s, of %d)", short(middle), short(times[0]), short(times[len(times)-1]), len(times))
	if middle > slowTrip {
		p.find("round trip", note, text, "the server is distant or busy; changes arrive with this delay")
	} else {
		p.find("round trip", fine, text, "")
	}
	return true
}

// list lists all objects and returns the list's version.
func (p *examination) list(ctx context.Context) (object.Version, bool) {
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	var (
		largest    object.Key
		size       int
		unreadable int
	)
	began := time.Now()
	page, err := p.source.ListAll(ctx, object.ListOptions{}, nil, func(item object.Item[*unstructured.Unstructured]) error {
		p.Objects++
		p.Bytes += int64(len(item.Raw))
		if len(item.Raw) > size {
			largest, size = item.Key, len(item.Raw)
		}
		if _, err := p.source.Decode(item.Raw); item.Err != nil || err != nil {
			unreadable++
		}
		return nil
	}, func(error) { p.Objects, p.Bytes, unreadable = 0, 0, 0 })
	if err != nil {
		p.fail("list", err)
		return "", false
	}
	text := fmt.Sprintf("%s in %s", counted(p.Objects, "object"), short(time.Since(began)))
	if p.Objects > 0 {
		text += fmt.Sprintf(", %s as JSON; largest: %s with %s", byteText(p.Bytes), largest, byteText(int64(size)))
	}
	switch {
	case unreadable > 0:
		p.find("list", broken, fmt.Sprintf("%s; %d cannot be decoded", text, unreadable), "check what wrote them; a mirror keeps the last valid state of each")
	case p.Objects > manyObjects:
		p.find("list", note, text, "use the compact form (tarn.Compact) and drop unused fields")
	case size > largeObject:
		p.find("list", note, text, "the largest is close to etcd's size limit; split it")
	default:
		p.find("list", fine, text, "")
	}
	return page.Version, true
}

// watch opens a watch, performs a streaming list while it is open, and waits for the
// watch's first bookmark.
func (p *examination) watch(ctx context.Context, version object.Version) {
	ctx, cancel := context.WithTimeout(ctx, p.limit+p.wait)
	defer cancel()
	began := time.Now()
	// Servers send a bookmark shortly before a watch times out, so a short timeout shows
	// earlier whether bookmarks are supported.
	stream, err := p.source.Watch(ctx, object.WatchOptions{Version: version, Bookmarks: true, Timeout: p.wait + bookmarkLead}, nil)
	if err != nil {
		p.fail("watch", err)
		return
	}
	defer stream.Close()
	opened := time.Since(began)
	type outcome struct {
		after time.Duration
		err   error
	}
	first := make(chan outcome, 1)
	go func() {
		_, err := until(stream, func(ev object.Event[*unstructured.Unstructured]) bool { return ev.Bookmark })
		first <- outcome{time.Since(began), err}
	}()
	p.streamingList(ctx)

	timer := time.NewTimer(p.wait + time.Second)
	defer timer.Stop()
	var result outcome
	select {
	case result = <-first:
	case <-timer.C:
		stream.Close()
		<-first
		result.err = errNone
	}
	if result.err != nil && !errors.Is(result.err, errNone) {
		p.fail("watch", result.err)
		return
	}
	p.find("watch", fine, "opened in "+short(opened), "")
	if result.err != nil {
		p.find("bookmarks", note, fmt.Sprintf("none within %v", p.wait),
			"servers send one about every minute; try --wait 70s. Without bookmarks, a watch that breaks after a quiet period must relist")
		return
	}
	p.find("bookmarks", fine, "first after "+short(result.after), "")
}

func (p *examination) streamingList(ctx context.Context) {
	const check = "streaming list"
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	began := time.Now()
	stream, err := p.source.Watch(ctx, object.WatchOptions{InitialEvents: true, Match: object.NotOlderThan, Bookmarks: true, Timeout: p.limit}, nil)
	if err != nil {
		if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
			p.find(check, note, "not supported: "+serverText(err), "supported from Kubernetes 1.32; mirrors fall back to lists, which cost the server more")
			return
		}
		p.fail(check, err)
		return
	}
	defer stream.Close()
	count, err := until(stream, func(ev object.Event[*unstructured.Unstructured]) bool { return ev.InitialEnd })
	switch {
	case err == nil:
		p.find(check, fine, fmt.Sprintf("%s and the final bookmark in %s", counted(count, "object"), short(time.Since(began))), "")
	case errors.Is(err, errNone), ctx.Err() != nil:
		p.find(check, note, fmt.Sprintf("%s, but no final bookmark within %s", counted(count, "object"), short(time.Since(began))),
			"mirrors fall back to lists; check whether a proxy delays events")
	default:
		p.fail(check, err)
	}
}

// errNone means that a stream ended cleanly without the expected event.
var errNone = errors.New("the watch ended without a bookmark")

// until reads a stream up to the expected event and counts the objects before it.
func until(stream object.Stream[*unstructured.Unstructured], found func(object.Event[*unstructured.Unstructured]) bool) (objects int, err error) {
	for {
		events, err := stream.Next()
		for _, ev := range events {
			switch {
			case found(ev):
				return objects, nil
			case ev.Err != nil:
				return objects, ev.Err
			case ev.Kind == object.Added:
				objects++
			}
		}
		switch {
		case err == io.EOF:
			return objects, errNone
		case err != nil:
			return objects, err
		}
	}
}
