package reflector

import (
	"errors"
	"time"

	"github.com/tarnproject/tarn/object"
)

// Sharding says where the objects outside of a shard are dropped.
type Sharding uint8

// The values of Sharding.
const (
	// ShardingUnknown: no shard was asked for, or nothing showed whether the server applies it. A
	// server of Kubernetes 1.36 confirms it in a LIST of a built-in kind, not of custom resources
	// or of metadata, and not in a watch or a streaming list.
	ShardingUnknown Sharding = iota
	// ShardingServer: the server confirmed that it sends only the objects of the shard.
	ShardingServer
	// ShardingClient: the server sends all objects; the others are dropped before they are decoded.
	ShardingClient
)

var shardingNames = [...]string{"unknown", "server", "client"}

// String returns "unknown", "server" or "client".
func (s Sharding) String() string {
	if int(s) < len(shardingNames) {
		return shardingNames[s]
	}
	return "invalid"
}

// errShard ends a request whose shard is no longer wanted.
var errShard error = &askedError{cause: errors.New("the shard changed")}

// SetShard changes the part of the objects that is listed and watched. The sink keeps what is in both
// parts, receives a list of what is new, and drops the rest, as one change with a List. Status.Mark
// has the new shard when that is done. It does not block and may be called from any goroutine.
//
// While watching this takes one LIST of what is new, at the version that the watch has reached
// (resourceVersionMatch=Exact), or no list if nothing is new. A watch of the whole shard follows; until
// then no events arrive. A call during a list takes effect after it.
//
// All of the new shard is listed, without decoding what the sink holds, in these cases:
//
//   - The last event was a deletion, which others may follow at its version.
//   - There is no version yet, it is older than [MaxPartAge], or the server no longer has it.
//   - The two shards are by different fields.
func (r *Reflector[T]) SetShard(shard object.Shard) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if shard == r.wanted {
		return
	}
	r.wanted, r.resharded = shard, true
	if r.interrupt != nil && !r.lists() {
		r.interrupt(errShard)
	}
}

// lists reports whether a list has begun or is about to. A change of the shard does not interrupt it: if
// lists take longer than the time between two changes, none would ever be complete. r.mu must be held.
func (r *Reflector[T]) lists() bool { return r.status.State == Listing || r.status.State == Streaming }

// handleShard returns the state that a call of SetShard leads to, or nil without one. It follows a
// list that has begun, and the wait of a back-off.
func (r *Reflector[T]) handleShard() state[T] {
	switch s := r.state.(type) {
	case *listing[T]:
		if !s.started.IsZero() {
			return nil
		}
	case *streaming[T]:
		if !s.started.IsZero() {
			return nil
		}
	}
	r.mu.Lock()
	changed := r.resharded
	r.target, r.resharded = r.wanted, false
	r.mu.Unlock()
	if !changed || r.now.State == Idle {
		return nil
	}
	if r.target.IsZero() {
		r.now.Sharding = ShardingUnknown
	}
	if b, ok := r.state.(*backingOff[T]); ok {
		b.next = r.reshard(b.next)
		return nil
	}
	return r.reshard(r.state)
}

// reshard returns the state that takes the place of one whose shard is no longer wanted.
func (r *Reflector[T]) reshard(was state[T]) state[T] {
	p := plan{}
	switch was := was.(type) {
	case *watching[T]:
		return r.partOf()
	case *listing[T]:
		if p = was.plan; p.part != nil {
			return r.partOf()
		}
	case *streaming[T]:
		p = was.plan
	}
	return r.list(p)
}

// partOf returns the list of what the sink lacks of the target shard, at the version that the sink
// has of the rest. After a deletion there is none: the sink may lack others at the version of the
// deletion, and has more than the version before it.
func (r *Reflector[T]) partOf() state[T] {
	part, ok := r.target.Minus(r.shard)
	if !ok || !r.at.Complete.Known() || !part.IsEmpty() && r.at.Complete != r.at.Seen || r.parts >= maxParts {
		return r.list(plan{})
	}
	return &listing[T]{listed: listed[T]{plan: plan{part: &part}}}
}

// MaxPartAge is how long ago an event, a bookmark or a list must have arrived for SetShard to list only
// what is new, at the version that it had. Until the watch has caught up, that part of the sink lacks
// changes which are up to so old. Servers send a bookmark about once a minute.
const MaxPartAge = 2 * time.Minute

// partIsOld reports whether MaxPartAge has passed, by either clock: a machine that was suspended counts
// only the time of the wall.
func (r *Reflector[T]) partIsOld() bool {
	return max(time.Since(r.current), time.Now().Round(0).Sub(r.current.Round(0))) >= MaxPartAge
}

// maxParts is how many changes of the shard may follow each other without an event in between. All
// lists of parts are of one version, so that another list has to bring the changes since.
const maxParts = 8

// finishPart commits the list of a part. The watch that follows begins at the version of the list,
// where the last one ended.
func (r *Reflector[T]) finishPart(l *listed[T]) (state[T], error) {
	mark := r.complete()
	mark.Shard = r.target
	if err := r.replace(&object.List[T]{Mark: mark, Items: l.items, Part: *l.part}); err != nil {
		return nil, err
	}
	r.shard = r.target
	r.at.keep(r.shard)
	r.parts++
	if !l.part.IsEmpty() {
		r.now.LastList = time.Now()
		r.now.Counts.Lists++
		r.now.Counts.Items += int64(len(l.items))
	}
	r.mu.Lock()
	r.quarantine.keep(r.shard)
	r.quarantine.merge(&l.bad)
	r.mu.Unlock()
	return &watching[T]{}, nil
}

// selection returns the selection of a request for a shard.
func (r *Reflector[T]) selection(shard object.Shard) object.Selection {
	sel := r.opts.Selection
	sel.Shard = shard
	return sel
}

// outside counts an object that is not in the shard.
func (r *Reflector[T]) outside() {
	r.now.Counts.Outside++
	r.now.Sharding = ShardingClient
}
