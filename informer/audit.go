package informer

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tarnproject/tarn/internal/paging"
	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/store"
)

// Audit is the result of [Informer.Audit].
type Audit struct {
	// Time is when the audit ended.
	Time time.Time
	// Objects is the number of objects that were compared.
	Objects int
	// Unreadable is how many of them the mirror lacks, or has in an older state, because they are in
	// quarantine.
	Unreadable int
	// Differences are the other objects that the mirror and the server have in different versions,
	// sorted by key, up to a hundred; More is the number of further ones.
	Differences []Difference
	More        int
}

// Count is the number of differences.
func (a Audit) Count() int { return len(a.Differences) + a.More }

// Difference is an object that the mirror and the server have in different versions.
type Difference struct {
	Key object.Key
	// Mirror and Server are what each has; zero if it does not have the object.
	Mirror, Server Identity
}

// Identity is the UID and the version of an object.
type Identity struct {
	UID     object.UID
	Version object.Version
}

// String returns for example "version 7 of 3f2a…", or "no object".
func (i Identity) String() string {
	if i == (Identity{}) {
		return "no object"
	}
	return fmt.Sprintf("version %s of %s", i.Version, i.UID)
}

// String returns for example "shop/web: the mirror has no object, the server version 7 of 3f2a…".
func (d Difference) String() string {
	return fmt.Sprintf("%s: the mirror has %s, the server %s", d.Key, d.Mirror, d.Server)
}

const (
	maxDifferences = 100
	auditPage      = 500 // objects per request
	auditTries     = 5   // until the server still has the version that the mirror is at
)

// Audit compares the mirror with the server at one exact version: each object's key, UID and
// version. list is asked for one page at a time, and only for what identifies the objects; see
// stream.Options.Lazy. It is a source of the same resource as the mirror's, for metadata only.
//
// An audit first waits until the mirror has the state of the server's answer to its first request.
// Changes during the audit are no differences. It costs the server a list in pages and this process
// eight bytes for each object.
func (inf *Informer[T]) Audit(ctx context.Context, list ListFunc) (Audit, error) {
	a := &audit[T]{inf: inf, list: list, seed: maphash.MakeSeed()}
	var found map[object.Key]Difference
	var err error
	for range auditTries {
		if found, err = a.confirmed(ctx); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			break // otherwise the server has compacted the version that the mirror was at
		}
	}
	if err != nil {
		return Audit{}, fmt.Errorf("informer %s: audit: %w", inf.opts.Name, err)
	}
	result := Audit{Time: time.Now(), Objects: a.objects}
	for key, d := range found {
		if inf.Unreadable(key) != nil {
			result.Unreadable++
		} else {
			result.Differences = append(result.Differences, d)
		}
	}
	slices.SortFunc(result.Differences, func(a, b Difference) int { return a.Key.Compare(b.Key) })
	if result.More = max(0, len(result.Differences)-maxDifferences); result.More > 0 {
		result.Differences = slices.Clone(result.Differences[:maxDifferences])
	}
	inf.audited.Store(&result)
	return result, nil
}

// ListFunc requests one page and calls each with the identity of every object on it.
type ListFunc func(ctx context.Context, opts object.ListOptions, each func(object.Key, Identity) error) (object.Page, error)

// audit is an audit in progress. It belongs to the goroutine that runs it.
type audit[T any] struct {
	inf     *Informer[T]
	list    ListFunc
	seed    maphash.Seed
	listed  []uint64 // hashes of the keys that the server has
	objects int
}

// confirmed compares, and if there are differences compares again: the mirror may be ahead of its mark by
// deletions ([object.Mark]), and the server does not have these objects at the version of the second
// comparison.
func (a *audit[T]) confirmed(ctx context.Context) (map[object.Key]Difference, error) {
	before, err := a.compare(ctx)
	if err != nil || len(before) == 0 {
		return nil, err
	}
	found, err := a.compare(ctx)
	for key, d := range found {
		if was, ok := before[key]; !ok || was.Server.UID != d.Server.UID {
			delete(found, key)
		}
	}
	return found, err
}

func (a *audit[T]) compare(ctx context.Context) (map[object.Key]Difference, error) {
	if err := a.catchUp(ctx); err != nil {
		return nil, err
	}
	snap := a.inf.Snapshot()
	defer snap.Release()
	found := map[object.Key]Difference{}
	a.objects = 0
	for mark := range snap.Marks() {
		if err := a.scope(ctx, snap, mark, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// catchUp waits until the mirror has the present state of the server.
func (a *audit[T]) catchUp(ctx context.Context) error {
	if err := a.inf.WaitSynced(ctx); err != nil {
		return err
	}
	scopes := a.inf.covered()
	if len(scopes) == 0 {
		return nil // all namespaces were removed
	}
	page, err := a.list(ctx, object.ListOptions{Selection: a.selection(object.Mark{Scope: scopes[0]}), Limit: 1},
		func(object.Key, Identity) error { return nil })
	if err != nil {
		return err
	}
	return a.inf.WaitFor(ctx, page.Version) // versions are common to all namespaces of a resource
}

func (a *audit[T]) selection(mark object.Mark) object.Selection {
	s := a.inf.opts.Selection
	return object.Selection{Namespace: string(mark.Scope), Labels: s.Labels, Fields: s.Fields, Shard: mark.Shard}
}

// scope compares a scope at its mark.
func (a *audit[T]) scope(ctx context.Context, snap store.Snapshot[T], mark object.Mark, found map[object.Key]Difference) error {
	a.listed = a.listed[:0]
	first := object.ListOptions{Selection: a.selection(mark), Version: mark.Version, Match: object.Exact, Limit: auditPage}
	var pager paging.Pager
	for last := false; !last; {
		page, err := a.list(ctx, pager.Request(first), func(key object.Key, server Identity) error {
			a.listed = append(a.listed, maphash.Comparable(a.seed, key))
			uid, version, _ := snap.Identity(key)
			if mirror := (Identity{uid, version}); mirror != server {
				found[key] = Difference{Key: key, Mirror: mirror, Server: server}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if last, err = pager.Read(page); err != nil {
			return err
		}
	}
	if pager.Version != mark.Version {
		return fmt.Errorf("the server listed version %s instead of exactly %s", pager.Version, mark.Version)
	}
	slices.Sort(a.listed)
	objects := 0
	for key := range snap.Keys() {
		if !mark.Scope.Covers(key) {
			continue
		}
		objects++
		if _, ok := slices.BinarySearchFunc(a.listed, maphash.Comparable(a.seed, key), cmp.Compare[uint64]); !ok {
			uid, version, _ := snap.Identity(key)
			found[key] = Difference{Key: key, Mirror: Identity{uid, version}}
		}
	}
	a.objects += max(objects, len(a.listed))
	return nil
}
