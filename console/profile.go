package console

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"time"
)

// profiles serves the profiles that go tool pprof and go tool trace read, below a prefix that was
// stripped. It does not use net/http/pprof, which also adds its pages to the http.DefaultServeMux
// of every program that links it.
func profiles() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead { // nothing is recorded for it
			plain(w)
			return
		}
		switch name := r.URL.Path; name {
		case "":
			profileIndex(w)
		case "profile":
			record(w, r, 30, pprof.StartCPUProfile, pprof.StopCPUProfile)
		case "trace":
			record(w, r, 1, trace.Start, trace.Stop)
		default:
			p := pprof.Lookup(name)
			if p == nil {
				http.Error(w, "no such profile; see /debug/pprof/", http.StatusNotFound)
				return
			}
			debug, err := number(r, "debug", 0)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			if name == "heap" && r.URL.Query().Has("gc") {
				runtime.GC()
			}
			plain(w)
			if debug == 0 {
				w.Header().Set("Content-Type", "application/octet-stream")
			}
			_ = p.WriteTo(w, debug) // fails only if the client disconnected
		}
	})
}

func profileIndex(w http.ResponseWriter) {
	plain(w)
	fmt.Fprint(w, "profile  CPU, ?seconds=30\ntrace    execution trace, ?seconds=1\n")
	for _, p := range pprof.Profiles() {
		fmt.Fprintf(w, "%s  %d, ?debug=1 for text\n", p.Name(), p.Count())
	}
}

// maxRecording is the longest profile or trace in seconds.
const maxRecording = 300

// record records until some seconds have passed or the client disconnects.
func record(w http.ResponseWriter, r *http.Request, seconds int, start func(io.Writer) error, stop func()) {
	seconds, err := number(r, "seconds", seconds)
	if err == nil && (seconds < 1 || seconds > maxRecording) {
		err = fmt.Errorf("seconds is %d; want 1 to %d", seconds, maxRecording)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	d := time.Duration(seconds) * time.Second
	// The error means that the server sets no deadline.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d + writeTimeout))
	plain(w)
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := start(w); err != nil {
		http.Error(w, err.Error(), http.StatusConflict) // another one is being recorded
		return
	}
	defer stop()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.Context().Done():
	}
}

// number returns a parameter of the query.
func number(r *http.Request, name string, without int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return without, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%s is %q; want a whole number", name, text)
	}
	return n, nil
}
