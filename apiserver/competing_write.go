package apiserver

import (
	"fmt"
	"strings"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/request"
	"github.com/tarnproject/tarn/object"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// anotherWriter is the annotation that a competing writer adds. Dumps omit it.
	anotherWriter = "apiserver.tarn/another-writer"
	// anotherWriterFirst is shown in the log of requests.
	anotherWriterFirst FaultKind = "another writer was first"
)

// competingChange is a change by another writer just before a write of a program that is explored.
type competingChange struct {
	kind  *kinds.Kind
	key   object.Key
	uid   types.UID
	write int
}

// value is what the change adds to the annotation.
func (c competingChange) value() string { return fmt.Sprintf("before write %d; ", c.write) }

// compete changes the object of a request as another writer would. It returns false if there is none.
func (s *Server) compete(r *request.Request, write int) (c competingChange, ok bool) {
	c = competingChange{kind: r.Kind, key: r.Key(), write: write}
	for {
		old := s.storage.Get(r.Kind, c.key)
		if old == nil {
			return c, false
		}
		next := old.Obj.DeepCopyObject()
		annotations := kinds.MetaOf(next).GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[anotherWriter] += c.value()
		kinds.MetaOf(next).SetAnnotations(annotations)
		if _, ok := s.storage.Commit(r.Kind, c.key, old, next); ok {
			c.uid = old.Meta.GetUID()
			return c, true
		}
	}
}

// overwritten returns the competing changes that their objects no longer have.
func (x *explored) overwritten() (lost []competingChange) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range x.competing {
		rec := x.server.storage.Get(c.kind, c.key)
		if rec != nil && rec.Meta.GetUID() == c.uid && !strings.Contains(rec.Meta.GetAnnotations()[anotherWriter], c.value()) {
			lost = append(lost, c)
		}
	}
	return lost
}
