package storage

import (
	"maps"
	"slices"
	"strings"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/object"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Contents returns the records of all kinds, for reset. The caller must hold the lock.
func (s *Storage) Contents() map[*kinds.Kind][]*kinds.Record {
	all := map[*kinds.Kind][]*kinds.Record{}
	for k, b := range s.buckets {
		if !b.removed {
			all[k] = slices.Clone(b.records)
		}
	}
	return all
}

// Reset makes the records those of contents, except Leases, by ordinary changes. served reports whether a
// kind is served after that. The caller must hold the lock.
func (s *Storage) Reset(then map[*kinds.Kind][]*kinds.Record, served func(*kinds.Kind) bool) {
	byName := func(a, b *kinds.Kind) int { return strings.Compare(a.String(), b.String()) }
	for _, k := range slices.SortedFunc(maps.Keys(s.buckets), byName) {
		b := s.buckets[k]
		if !k.IsLease() {
			s.restore(b, k, then[k])
		}
		b.removed = !served(k)
		s.wake(b)
	}
}

// restore replaces the records of a bucket. The caller must hold the lock.
func (s *Storage) restore(b *bucket, k *kinds.Kind, then []*kinds.Record) {
	keep := make(map[object.Key]bool, len(then))
	for _, rec := range then {
		keep[rec.Key] = true
	}
	for _, rec := range slices.Clone(b.records) {
		if !keep[rec.Key] {
			s.write(b, k, rec.Key, rec, nil)
		}
	}
	for _, rec := range then {
		now, next := s.Find(k, rec.Key), rec.Obj.DeepCopyObject()
		if now != nil {
			kinds.MetaOf(next).SetResourceVersion(now.Meta.GetResourceVersion())
			if equality.Semantic.DeepEqual(now.Obj, next) {
				continue
			}
			if now.Meta.GetUID() != rec.Meta.GetUID() {
				s.write(b, k, rec.Key, now, nil)
				now = nil
			}
		}
		s.write(b, k, rec.Key, now, next).Schema = rec.Schema
	}
}
