package apiserver

import (
	"encoding/json"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// serveAdmin does over HTTP what the Go calls do:
//
//	GET    /tarn/faults                         the active faults
//	POST   /tarn/faults  {"kind": "cut-watch"}  Inject
//	DELETE /tarn/faults                         Clear
//	POST   /tarn/random?seed=1&rate=0.1         Random
//	POST   /tarn/cut?resource=pods              Cut
//	POST   /tarn/compact?keep=10                Compact
//	POST   /tarn/rewind?changes=10              Rewind
func (s *Server) serveAdmin(w http.ResponseWriter, req *http.Request, path string) {
	query := req.URL.Query()
	number := func(name string) int {
		n, _ := strconv.Atoi(query.Get(name)) // 0 is the default of all
		return n
	}
	switch req.Method + " " + path {
	case "GET faults":
	case "POST faults":
		var f Fault
		err := json.NewDecoder(http.MaxBytesReader(w, req.Body, 1<<16)).Decode(&f)
		if err == nil {
			_, err = s.Inject(f)
		}
		if err != nil {
			s.refuse(w, req, apierrors.NewBadRequest(err.Error()))
			return
		}
	case "DELETE faults":
		s.Clear()
	case "POST random":
		seed, err := strconv.ParseUint(query.Get("seed"), 10, 64)
		rate, bad := strconv.ParseFloat(query.Get("rate"), 64)
		if err != nil || bad != nil || rate < 0 || rate > 1 {
			s.refuse(w, req, apierrors.NewBadRequest("random needs a seed and a rate from 0 to 1"))
			return
		}
		s.Random(seed, rate)
	case "POST cut":
		s.serveJSON(w, req, map[string]any{"cut": s.Cut(query.Get("resource"))})
		return
	case "POST compact":
		s.Compact(number("keep"))
	case "POST rewind":
		s.Rewind(number("changes"))
	default:
		s.refuse(w, req, notServed())
		return
	}
	s.serveJSON(w, req, map[string]any{"faults": s.Faults(), "version": formatVersion(s.Version())})
}
