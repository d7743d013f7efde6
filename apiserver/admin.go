package apiserver

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/tarnproject/tarn/apiserver/internal/apierror"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// serveAdmin exposes the fault and history methods over HTTP:
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
		n, _ := strconv.Atoi(query.Get(name)) // missing or malformed means 0
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
			s.out.Error(w, req, apierrors.NewBadRequest(err.Error()))
			return
		}
	case "DELETE faults":
		s.Clear()
	case "POST random":
		seed, err := strconv.ParseUint(query.Get("seed"), 10, 64)
		rate, bad := strconv.ParseFloat(query.Get("rate"), 64)
		if err != nil || bad != nil || rate < 0 || rate > 1 {
			s.out.Error(w, req, apierrors.NewBadRequest("random requires a seed and a rate between 0 and 1"))
			return
		}
		s.Random(seed, rate)
	case "POST cut":
		s.out.JSON(w, req, map[string]any{"cut": s.Cut(query.Get("resource"))})
		return
	case "POST compact":
		s.Compact(number("keep"))
	case "POST rewind":
		s.Rewind(number("changes"))
	default:
		s.out.Error(w, req, apierror.NotServed())
		return
	}
	s.out.JSON(w, req, map[string]any{"faults": s.Faults(), "version": kinds.FormatVersion(s.Version())})
}
