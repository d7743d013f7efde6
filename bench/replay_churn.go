package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	apiwatch "k8s.io/apimachinery/pkg/watch"
)

const (
	// churnPrefix is the URL prefix under which a watch stays open and sends changes on request.
	churnPrefix = "/churn"
	// changePath encodes a number of changes for the next sendPath, in place of earlier ones. It
	// returns the last version.
	changePath = "/change"
	// sendPath sends the encoded changes at a rate per second and returns when all are sent.
	sendPath = "/send"
)

// burst has encoded frames for the open watch. Only the request that encodes the frames writes to
// them, before the watch receives them.
type burst struct {
	frames [][]byte
	rate   float64 // per second
	sent   chan struct{}
}

// change encodes changes of random objects, each of a different object if there are enough.
func (h *replayHandler) change(query url.Values) (last uint64, err error) {
	defer recovered(&err)
	n, err := strconv.Atoi(query.Get("n"))
	if err != nil {
		return 0, err
	}
	of := h.encoders[query.Get("resource")]
	if of == nil {
		return 0, fmt.Errorf("no resource %q", query.Get("resource"))
	}
	e := of()
	info, err := serializer(protobufEncoding)
	if err != nil {
		return 0, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	first := max(h.version, e.last()) + 1
	order := rand.New(rand.NewPCG(7, first)).Perm(e.len())
	h.burst = burst{frames: make([][]byte, n)}
	parallel(n, func(i int) {
		var frame bytes.Buffer
		changed := e.next(order[i%len(order)], first+uint64(i))
		check(frameEncoder(e, info, &frame).Encode(&apiwatch.Event{Type: apiwatch.Modified, Object: changed}))
		h.burst.frames[i] = frame.Bytes()
	})
	h.version = first + uint64(n) - 1
	return h.version, nil
}

// send passes the encoded changes to the open watch and waits until it has sent them.
func (h *replayHandler) send(ctx context.Context, query url.Values) error {
	rate, err := strconv.ParseFloat(query.Get("rate"), 64)
	if err != nil {
		return err
	}
	h.mu.Lock()
	c := h.burst
	h.burst = burst{}
	h.mu.Unlock()
	c.rate, c.sent = rate, make(chan struct{})
	select {
	case h.churn <- c:
	case <-ctx.Done():
		return errors.New("no watch is open")
	}
	select {
	case <-c.sent:
	case <-ctx.Done():
	}
	return nil
}

// serveChurn is a watch that sends changes on request until the client ends it or it expires.
func (h *replayHandler) serveChurn(w http.ResponseWriter, r *http.Request, a asked) {
	info, err := serializer(a.encoding)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	a.way = byEvents
	w.Header().Set("Content-Type", contentType(a))
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	expired := h.expiry()
	h.sent.Add(1)
	for {
		select {
		case <-r.Context().Done():
			return
		case <-expired:
			_ = encodeExpired(info, w)
			return
		case c := <-h.churn:
			err := c.write(w, flush.Flush)
			close(c.sent)
			if err != nil {
				return
			}
		}
	}
}

// write sends the frames, some every few milliseconds.
func (c burst) write(to io.Writer, flush func() error) error {
	began, at := time.Now(), 0
	for {
		due := min(len(c.frames), 1+int(c.rate*time.Since(began).Seconds()))
		for ; at < due; at++ {
			if _, err := to.Write(c.frames[at]); err != nil {
				return err
			}
		}
		if err := flush(); err != nil || at == len(c.frames) {
			return err
		}
		time.Sleep(2 * time.Millisecond)
	}
}
