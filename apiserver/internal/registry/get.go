package registry

import (
	"net/http"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/request"
	"github.com/tarnproject/tarn/apiserver/internal/storage"
)

// ServeGet serves a get.
func (s *Registry) ServeGet(w http.ResponseWriter, r *request.Request) error {
	if version, err := storage.ParseVersion(r.URL.Query().Get("resourceVersion")); err != nil {
		return err
	} else if version > 0 {
		if err := s.Storage.Await(r.Context(), version); err != nil {
			return err
		}
	}
	rec := s.Storage.Get(r.Kind, r.Key())
	if rec == nil {
		return kinds.NotFound(r.Kind, r.Name)
	}
	return s.Out.Record(w, r, http.StatusOK, rec)
}
