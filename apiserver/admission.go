package apiserver

import (
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
)

// admission checks and changes what a client writes. A nil admission is for the server's own
// writes and does nothing.
type admission struct {
	server *Server
	w      http.ResponseWriter // for warnings
	r      *request
}

func (s *Server) admission(w http.ResponseWriter, r *request) *admission { return &admission{s, w, r} }

// change returns the object that is to be validated and stored instead of obj, which it may
// modify. old is nil for a new object.
func (a *admission) change(old *record, obj runtime.Object) (runtime.Object, error) {
	if a == nil {
		return obj, nil
	}
	return obj, a.server.checkEscalation(a.r, old, obj)
}
