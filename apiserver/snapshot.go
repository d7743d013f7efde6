package apiserver

import (
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Snapshot is the state of a server for [Server.Restore]. It is never modified.
type Snapshot struct {
	server  *Server
	kinds   map[schema.GroupVersionResource]*kinds.Kind
	records map[*kinds.Kind][]*kinds.Record
}

// Snapshot returns the current objects and custom resources.
func (s *Server) Snapshot() *Snapshot {
	snap := &Snapshot{server: s}
	s.storage.Locked(func() { snap.kinds, snap.records = s.catalog.Clone(), s.storage.Contents() })
	return snap
}

// Restore makes the objects and custom resources those of a snapshot of this server, as one
// step of ordinary changes at new resource versions. Objects get back their UIDs and status,
// and finalizers delay nothing. Watches receive the changes, so caches and controllers keep
// running; see [Server.Rewind] for a restored backup. Leases stay as they are, because their holders
// keep running too.
//
// Controllers receive the changes of each resource separately, and in the meantime act on a mixture of
// both states: one that sees a restored parent before its restored children creates others. So with
// running controllers, one call may not end at the snapshot. Stop them, or restore until nothing
// changes:
//
//	want := server.Dump() // when the snapshot is taken
//	for first := true; first || !bytes.Equal(server.Dump(), want); first = false {
//		server.Restore(snapshot)
//		if err := server.WaitIdle(ctx, time.Second); err != nil {
//			return err
//		}
//	}
func (s *Server) Restore(snap *Snapshot) {
	if snap.server != s {
		panic("apiserver: the snapshot is of another server")
	}
	s.storage.Locked(func() {
		s.catalog.Reset(snap.kinds)
		s.storage.Reset(snap.records, func(k *kinds.Kind) bool {
			for _, served := range snap.kinds {
				if served.Storage == k {
					return true
				}
			}
			return false
		})
	})
}
