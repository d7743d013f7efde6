package main

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

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

const (
	// roundTrips is how many are timed.
	roundTrips = 5
	// slowTrip is a round trip that people notice.
	slowTrip = 300 * time.Millisecond
	// packedFrom is the length above which API servers compress answers.
	packedFrom = 128 << 10
	// manyObjects is where the memory of a mirror begins to matter.
	manyObjects = 50_000
	// largeObject is near what etcd stores at all.
	largeObject = 1 << 20
)

// verdict says how a finding is to be taken.
type verdict string

const (
	fine   verdict = "ok"
	note   verdict = "note"
	broken verdict = "broken"
)

// finding is what one check found.
type finding struct {
	Check   string  `json:"check"`
	Verdict verdict `json:"verdict"`
	Text    string  `json:"text"`
	Fix     string  `json:"fix,omitempty"`
}

// chart is what is known of one resource when it has been examined.
type chart struct {
	Resource  string    `json:"resource"`
	Version   string    `json:"version"`
	Namespace string    `json:"namespace,omitempty"`
	Objects   int       `json:"objects"`
	Bytes     int64     `json:"bytes"`
	HTTP      string    `json:"http,omitempty"`
	TLS       string    `json:"tls,omitempty"`
	Findings  []finding `json:"findings"`

	need object.Resource
}

// broken reports whether something is.
func (c *chart) broken() bool {
	return slices.ContainsFunc(c.Findings, func(f finding) bool { return f.Verdict == broken })
}

// patient is a resource that is being examined. One goroutine does so.
type patient struct {
	chart
	client *wire.Client
	source *wire.Source[*unstructured.Unstructured]
	meter  *meter
	sel    object.Selection
	res    object.Resource
	// wait is how long to wait for a bookmark, limit how long for anything else.
	wait, limit time.Duration
	disabled    bool // compression, by the kubeconfig
}

func (p *patient) find(check string, v verdict, text, fix string) {
	p.Findings = append(p.Findings, finding{check, v, text, fix})
}

// refuse notes that a check failed, and what to do.
func (p *patient) refuse(check string, err error) {
	fix := ""
	switch {
	case apierrors.IsForbidden(err):
		fix = "grant the rights below to the user of the context"
	case apierrors.IsUnauthorized(err):
		fix = "renew the credentials of the context's user"
	case apierrors.IsNotFound(err):
		fix = "see whether the resource's definition was removed, or its API server is down"
	case apierrors.IsTooManyRequests(err):
		fix = "the server is overloaded, or limits this user; see its priority and fairness settings"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, object.ErrIdle):
		fix = "see whether a proxy on the way holds answers back, or give more time with --timeout"
	case errors.Is(err, object.ErrCorrupt):
		fix = "see whether a proxy on the way changes answers"
	}
	p.find(check, broken, sentence(err), fix)
}

// examine makes all checks, as far as each makes sense after the one before it.
func (p *patient) examine(ctx context.Context, verbs []string) {
	for _, verb := range []string{"list", "watch"} {
		if !slices.Contains(verbs, verb) {
			p.find(verb, broken, "the server offers only "+strings.Join(verbs, ", "), "there is nothing to mirror here")
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
	p.watch(ctx, version)
}

func (p *patient) roundTrips(ctx context.Context) bool {
	var times []time.Duration
	for range roundTrips {
		began := time.Now()
		ctx, cancel := context.WithTimeout(ctx, p.limit)
		_, err := p.client.Request(wire.VerbList).Resource(p.res).Namespace(p.sel.Namespace).Param("limit", "1").Do(ctx)
		cancel()
		if err != nil {
			p.refuse("list", err)
			return false
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	seen := p.meter.take()
	p.HTTP, p.TLS = seen.proto, seen.tls
	middle := times[len(times)/2]
	text := fmt.Sprintf("%s (%s to %s, of %d)", short(middle), short(times[0]), short(times[len(times)-1]), len(times))
	if middle > slowTrip {
		p.find("round trip", note, text, "the server is far away or busy; changes arrive as much later")
	} else {
		p.find("round trip", fine, text, "")
	}
	return true
}

// list reads everything, and returns the version of it.
func (p *patient) list(ctx context.Context) (object.Version, bool) {
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
		p.refuse("list", err)
		return "", false
	}
	text := fmt.Sprintf("%s in %s", counted(p.Objects, "object"), short(time.Since(began)))
	if p.Objects > 0 {
		text += fmt.Sprintf(", %s as JSON; the largest is %s with %s", byteText(p.Bytes), largest, byteText(int64(size)))
	}
	switch {
	case unreadable > 0:
		p.find("list", broken, fmt.Sprintf("%s; %d cannot be read", text, unreadable), "see what wrote them; a mirror keeps the last good state of each")
	case p.Objects > manyObjects:
		p.find("list", note, text, "hold them in a compact form (tarn.Compact), and drop fields that nobody reads")
	case size > largeObject:
		p.find("list", note, text, "the largest is near what etcd stores; split it")
	default:
		p.find("list", fine, text, "")
	}
	p.compression(p.meter.take())
	return page.Version, true
}

func (p *patient) compression(seen traffic) {
	switch {
	case seen.packed > 0:
		p.find("compression", fine, fmt.Sprintf("gzip, %s came as %s", byteText(p.Bytes), byteText(seen.bytes)), "")
	case p.disabled:
		p.find("compression", note, "none", "disable-compression is set in the kubeconfig; take it out unless the server is near")
	case p.Bytes < 2*packedFrom:
		p.find("compression", fine, "none, answers are too short for it", "")
	default:
		p.find("compression", note, fmt.Sprintf("none, though %s came", byteText(seen.bytes)), "see whether a proxy on the way unpacks answers")
	}
}

// watch opens a watch, makes a streaming list while it is open, and waits for the
// watch's first bookmark.
func (p *patient) watch(ctx context.Context, version object.Version) {
	ctx, cancel := context.WithTimeout(ctx, p.limit+p.wait)
	defer cancel()
	began := time.Now()
	// A server sends a bookmark shortly before it ends a watch, so that a short watch
	// shows sooner than a long one whether it sends them at all.
	stream, err := p.source.Watch(ctx, object.WatchOptions{Version: version, Bookmarks: true, Timeout: p.wait}, nil)
	if err != nil {
		p.refuse("watch", err)
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
		p.refuse("watch", result.err)
		return
	}
	p.find("watch", fine, "opened in "+short(opened), "")
	if result.err != nil {
		p.find("bookmarks", note, fmt.Sprintf("none came in %v", p.wait),
			"servers send one about every minute; --wait 70s looks longer. Without them a watch that breaks after a quiet time has to list anew")
		return
	}
	p.find("bookmarks", fine, "one came after "+short(result.after), "")
}

func (p *patient) streamingList(ctx context.Context) {
	const check = "streaming list"
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	began := time.Now()
	stream, err := p.source.Watch(ctx, object.WatchOptions{InitialEvents: true, Match: object.NotOlderThan, Bookmarks: true, Timeout: p.limit}, nil)
	if err != nil {
		if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
			p.find(check, note, "not served: "+serverText(err), "Kubernetes serves them from 1.32 on; lists are used instead, which cost the server more")
			return
		}
		p.refuse(check, err)
		return
	}
	defer stream.Close()
	count, err := until(stream, func(ev object.Event[*unstructured.Unstructured]) bool { return ev.InitialEnd })
	switch {
	case err == nil:
		p.find(check, fine, fmt.Sprintf("%s and the bookmark that ends them in %s", counted(count, "object"), short(time.Since(began))), "")
	case errors.Is(err, errNone), ctx.Err() != nil:
		p.find(check, note, fmt.Sprintf("%s came, but not the bookmark that ends them in %s", counted(count, "object"), short(time.Since(began))),
			"lists are used instead; see whether a proxy on the way holds events back")
	default:
		p.refuse(check, err)
	}
}

// errNone says that a stream ended, in order, without what was looked for.
var errNone = errors.New("the watch ended without it")

// until reads a stream up to the event that is looked for, and counts the objects before
// it.
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
