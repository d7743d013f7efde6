// Package handover has what the protocols on Leases share for the moment at which another process takes
// over: whether the caches of a process are live, and which versions they must have reached.
package handover

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tarnproject/tarn/informer"
	"github.com/tarnproject/tarn/object"
)

// Cache is a cache that reconciles read.
type Cache interface {
	// Name returns the name of the cache, which is the same in all processes.
	Name() string
	// Shard returns the part of the objects that it has.
	Shard() object.Shard
	// WaitForKey blocks until the cache has reached a version in the namespace of a key.
	WaitForKey(ctx context.Context, key object.Key, version object.Version) error
}

// Live reports whether a cache with these lists and watches receives changes, or lists what is new in its
// shard. If the server no longer has the version for that, the cache lists all of its shard at once, which
// can take longer than a lease.
func Live(sources []informer.SourceStatus) bool {
	return !slices.ContainsFunc(sources, func(s informer.SourceStatus) bool {
		r := &s.Reflector
		expired := r.Until.IsZero() && (apierrors.IsResourceExpired(r.Cause) || apierrors.IsGone(r.Cause))
		grows := r.Synced && (r.Cause == nil || expired) && r.Mark.Shard != r.Shard
		return (!s.Listed || !r.Live()) && !grows
	})
}

// Await blocks until the caches have what was written, or the context is done. It calls late for each
// cache that does not have it then. covered reports whether a cache with a shard receives the changes of
// a part.
func Await[C Cache](ctx context.Context, caches []C, written Versions, covered func(Part, object.Shard) bool, late func(error)) {
	for _, c := range caches {
		has := c.Shard()
		for p, version := range written {
			if p.Cache != c.Name() || !covered(p, has) {
				continue
			}
			if err := c.WaitForKey(ctx, object.Key{Namespace: string(p.Scope)}, version); err != nil && context.Cause(ctx) == context.DeadlineExceeded {
				late(err)
			}
		}
	}
}

// Versions are the newest resource versions that were written. They are not changed once another
// goroutine has them.
type Versions map[Part]object.Version

// Part is a part of a cache: what has one list and one watch or, in a cache that has the ranges of
// its member only, what has one slot. No event of another slot arrives there.
type Part struct {
	Cache string
	Scope object.Scope
	Slot  string // empty: all
}

// History has the newest version of each part, and when it became known to this process.
type History map[Part]recorded

type recorded struct {
	version object.Version
	at      time.Duration
}

// MaxWritten limits the text of the versions of a lease, whose annotations may have 256 KiB.
const MaxWritten = 128 << 10

// Add records a version, unless there is a newer one.
func (h History) Add(p Part, version object.Version, now time.Duration) {
	if old, ok := h[p]; version.Known() && (!ok || old.version != version && !old.version.After(version)) {
		h[p] = recorded{version, now}
	}
}

// Since forgets all versions before a moment, and returns the latest of the others.
func (h History) Since(moment time.Duration) Versions {
	maps.DeleteFunc(h, func(_ Part, r recorded) bool { return r.at < moment })
	v, size := make(Versions, len(h)), 0
	for _, p := range slices.SortedFunc(maps.Keys(h), func(a, b Part) int { return cmp.Compare(h[b].at, h[a].at) }) {
		if size += len(p.Cache) + len(p.Scope) + len(p.Slot) + len(h[p].version) + 4; size > MaxWritten {
			delete(h, p)
		} else {
			v[p] = h[p].version
		}
	}
	return v
}

// String returns the versions as they are stored: a line for each part, such as
// "1234 shop configmaps", with "*" for all namespaces and "*#17" for the slot 17 of them.
func (v Versions) String() string {
	lines := make([]string, 0, len(v))
	for p, version := range v {
		scope := string(p.Scope)
		if p.Scope == object.Everything {
			scope = "*"
		}
		if p.Slot != "" {
			scope += "#" + p.Slot
		}
		lines = append(lines, fmt.Sprintf("%s %s %s\n", version, scope, p.Cache))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// Parse is the inverse of [Versions.String]. It ignores lines that it cannot read.
func Parse(text string) Versions {
	v := Versions{}
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		if len(fields) < 3 || !object.Version(fields[0]).Known() {
			continue
		}
		scope, slot, _ := strings.Cut(fields[1], "#")
		if scope == "*" {
			scope = string(object.Everything)
		}
		v[Part{fields[2], object.Scope(scope), slot}] = object.Version(fields[0])
	}
	return v
}
