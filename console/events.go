package console

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	// statusPeriod is the time between two status events, and objectsPeriod the least time between
	// two events about changed objects.
	statusPeriod, objectsPeriod = time.Second, 500 * time.Millisecond
	// slack is how much earlier than statusPeriod a status may be replaced, so that clients that
	// wake up a little early get a new one.
	slack = 100 * time.Millisecond
	// sendTimeout is how long a client may take to receive an event.
	sendTimeout = 10 * time.Second
	// maxStreams is how many event streams may be open.
	maxStreams = 32
)

// feed has the newest status, encoded once for all clients. There is no goroutine behind it: the
// first client that finds the status old replaces it, so it costs nothing without clients.
type feed struct {
	mu   sync.Mutex // guards all below
	at   time.Time
	data []byte
	last bool // the cluster has stopped
}

// next returns the newest status if it is newer than what the client has.
func (f *feed) next(c Cluster, admin bool, have time.Time) (data []byte, at time.Time, last bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); f.data == nil || now.Sub(f.at) >= statusPeriod-slack {
		s := c.Status()
		if f.data, err = encode(answer{encodeStatus(s), process(), admin}); err != nil {
			return nil, have, false, err
		}
		f.at, f.last = now, s.Stopped
	}
	if !f.at.After(have) {
		return nil, have, f.last, nil
	}
	return f.data, f.at, f.last, nil
}

// events sends the status at once and then every second, and with ?mirror=NAME an event at once and
// whenever objects of that mirror have changed, until the client disconnects or the cluster has stopped. A
// client that does not read is disconnected.
func (h *handler) events(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead { // it has no body to end with
		w.Header().Set("Content-Type", "text/event-stream")
		return
	}
	select {
	case h.streams <- struct{}{}:
		defer func() { <-h.streams }()
	default:
		http.Error(w, fmt.Sprintf("%d event streams are open; close some pages", maxStreams), http.StatusServiceUnavailable)
		return
	}
	var m Mirror
	if r.URL.Query().Has("mirror") {
		var err error
		if m, err = h.mirror(r); err != nil {
			respond(func(*http.Request) (any, error) { return nil, err }).ServeHTTP(w, r)
			return
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // the error means that the server sets none
	send := func(event string, data []byte) bool {
		_ = control.SetWriteDeadline(time.Now().Add(sendTimeout))
		_, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, data)
		return err == nil && control.Flush() == nil
	}
	var have time.Time
	var revision uint64
	known := false // the first event is about what changed before the client connected
	tick := time.NewTicker(objectsPeriod)
	defer tick.Stop()
	for {
		data, at, last, err := h.feed.next(h.cluster, h.admin(), have)
		if err != nil || data != nil && !send("status", data) {
			return
		}
		have = at
		if m != nil {
			now := m.Revision()
			if (!known || now != revision) && !send("objects", fmt.Appendf(nil, `{"mirror":%q,"revision":%d}`, m.Name(), now)) {
				return
			}
			revision, known = now, true
		}
		if last {
			send("end", []byte("{}"))
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}
