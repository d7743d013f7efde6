package tarn

import (
	"errors"
	"slices"
	"sync"

	"github.com/tarnproject/tarn/object"
)

// Shard is the part of the objects that mirrors with the option [InShard] have. One Shard serves any
// number of mirrors, of one cluster or of several; [Shard.Set] changes the part of all of them. Create
// one with [NewShard]. All methods are safe for concurrent use.
//
//	part := tarn.NewShard(object.Part(object.ByNamespace, replica, replicas))
//	pods, err := tarn.MirrorOf[*corev1.Pod](cluster, tarn.InShard(part))
type Shard struct {
	mu        sync.Mutex // guards all below; informers are called with it held
	part      object.Shard
	followers []shardFollower
}

// shardFollower is an *informer.Informer[T] of any T.
type shardFollower interface {
	SetShard(object.Shard) error
}

// NewShard returns a Shard with the given part: [object.Part] is one of n equal parts, and
// [object.NewShard] one of certain hash ranges.
func NewShard(part object.Shard) *Shard { return &Shard{part: part} }

// Part returns the current part. A mirror has at least that when [Mirror.WaitSynced] returns.
func (s *Shard) Part() object.Shard {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.part
}

// Set changes the part, without waiting. Each mirror keeps the objects that are in both parts, lists
// what is new to it, and removes the others as [Left]: subscribers forget them, and controllers do not
// reconcile them. End work on what is removed before Set. [Cluster.WaitSynced] waits for what is new, at
// the version that the watch had reached; later changes follow as events.
func (s *Shard) Set(part object.Shard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.part = part
	s.notify()
}

// notify sets the part of all mirrors and drops those that have stopped. s.mu must be held.
func (s *Shard) notify() {
	s.followers = slices.DeleteFunc(s.followers, func(f shardFollower) bool { return f.SetShard(s.part) != nil })
}

// follow makes an informer have the part from now on.
func (s *Shard) follow(f shardFollower) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.followers = append(s.followers, f)
	s.notify()
}

// unfollow ends follow, for an informer that may never have run.
func (s *Shard) unfollow(f shardFollower) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.followers = slices.DeleteFunc(s.followers, func(other shardFollower) bool { return other == f })
}

// Unsharded makes the mirror have all objects in a cluster whose replicas divide them (Ranges of
// shard.Options). It is for objects of other namespaces that reconciles list, or that [Watches] maps to
// keys of other namespaces: a replica receives changes of its own namespaces only. Elsewhere it has no
// effect.
func Unsharded() Option {
	return optionFunc(func(d *declaration) error {
		d.whole = true
		return nil
	})
}

// restrict makes the mirror have the objects of the slots that this replica has, if the replicas of the
// cluster divide them.
func (c *Cluster) restrict(d *declaration, namespaced bool) error {
	switch {
	case c.part == nil || d.whole && d.shard == nil:
		return nil
	case d.shard != nil:
		return errors.New("InShard with shard.Options.Ranges, which already divides the objects; use one of them")
	case namespaced:
		d.shard = c.part
	}
	return nil
}

// InShard restricts the mirror to a part of the objects, so that the replicas of a program can divide
// a resource among them. Mirrors with the same Shard are the same mirror.
//
// Where the server supports it (Kubernetes 1.36 with the feature gate ShardedListAndWatch), it sends
// only that part. Otherwise the mirror receives everything and drops the other objects before it decodes
// them. `tarn doctor` reports which it is.
//
// A mirror of a shard does not know whether an object outside of it exists. [Client.Get] asks the
// server for it; [Mirror.Get] and [Client.List] have the shard only. Owners and their dependents are
// in the same shard with [object.ByNamespace].
func InShard(s *Shard) Option {
	return optionFunc(func(d *declaration) error {
		switch {
		case s == nil:
			return errors.New("InShard needs a Shard; omit it for all objects")
		case d.shard != nil && d.shard != s:
			return errors.New("two Shards; a mirror has one")
		}
		d.shard = s
		return nil
	})
}
