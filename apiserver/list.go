package apiserver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/tarnproject/tarn/object"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// freshness is how long a list or a streaming list waits for a version that is still to
// come before it is refused.
const freshness = 3 * time.Second

// page is one page of a list.
type page struct {
	records   []*record
	version   uint64
	next      string // the continue token; empty on the last page
	remaining *int64 // how many come after it, where that is known
}

// place is where in the history, and from which key on, a list is to be read.
type place struct {
	version uint64     // 0 for the newest
	from    object.Key // the first key that may be on the page
	rewinds int        // of the history; -1 when any will do
}

// token is what stands in a continue token.
type token struct {
	Version int64  `json:"rv"` // -1 for the newest
	Rewinds int    `json:"history"`
	Space   string `json:"namespace"`
	Name    string `json:"name"`
}

const inconsistent = -1

func (t token) String() string {
	text, _ := json.Marshal(t) // of two strings and two numbers
	return base64.RawURLEncoding.EncodeToString(text)
}

func parseToken(s string) (t token, err error) {
	text, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		err = json.Unmarshal(text, &t)
	}
	if err == nil && (t.Version == 0 || t.Version < inconsistent) {
		err = errors.New("it was not made by this server")
	}
	if err != nil {
		return t, apierrors.NewBadRequest("invalid continue token: continue key is not valid: " + err.Error())
	}
	return t, nil
}

// list reads one page with the meanings that the API gives to version, match, limit and
// continue.
func (s *storage) list(ctx context.Context, k *kind, sel selection, opts *internalversion.ListOptions) (page, error) {
	at, limit, err := s.place(ctx, opts)
	if err != nil {
		return page{}, err
	}
	records, at, err := s.choose(k, sel, at, opts)
	if err != nil {
		return page{}, err
	}
	return at.page(k, sel, records, limit), nil
}

// choose copies the records that a page may have, and says where and when they are from.
func (s *storage) choose(k *kind, sel selection, at place, opts *internalversion.ListOptions) ([]*record, place, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.version == 0 {
		at.version = s.version
	}
	switch {
	case at.version < s.compacted || at.rewinds >= 0 && at.rewinds != s.rewinds:
		return nil, at, s.expired(opts)
	case at.version > s.version:
		return nil, at, s.tooLarge(at.version, s.version) // after a rewind
	}
	at.rewinds = s.rewinds
	return s.copy(k, sel.namespace, at), at, nil
}

// place tells which state a list asks for. It waits for one that is still to come.
func (s *storage) place(ctx context.Context, opts *internalversion.ListOptions) (at place, limit int64, err error) {
	at.rewinds = -1
	limit = opts.Limit
	if opts.Continue != "" {
		if v := opts.ResourceVersion; v != "" && v != "0" {
			return at, 0, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
		}
		t, err := parseToken(opts.Continue)
		if err != nil {
			return at, 0, err
		}
		at.from = object.Key{Namespace: t.Space, Name: t.Name}
		if t.Version != inconsistent {
			at.version, at.rewinds = uint64(t.Version), t.Rewinds
		}
		return at, limit, nil
	}
	version, err := parseVersion(opts.ResourceVersion)
	switch {
	case err != nil:
		return at, 0, err
	case opts.ResourceVersion == "0":
		return at, 0, nil // from the cache, which has no pages
	case version == 0:
		return at, limit, nil
	}
	if err := s.await(ctx, version); err != nil {
		return at, 0, err
	}
	match := opts.ResourceVersionMatch
	if match == metav1.ResourceVersionMatchExact || match == "" && limit > 0 {
		at.version = version
	}
	return at, limit, nil
}

// await waits for a version that is still to come, for a while.
func (s *storage) await(ctx context.Context, version uint64) error {
	until := time.NewTimer(freshness)
	defer until.Stop()
	for {
		advanced := s.awaits(version)
		if advanced == nil {
			return nil
		}
		select {
		case <-advanced:
		case <-until.C:
			return s.tooLarge(version, s.now())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// copy returns the records of a namespace, or of all, from a place on. The lock must be
// held; selectors, which may be slow, are for afterwards.
func (s *storage) copy(k *kind, namespace string, at place) []*record {
	records := s.state(k, at.version)
	from := at.from
	if first := (object.Key{Namespace: namespace}); from.Compare(first) < 0 {
		from = first
	}
	i := sort.Search(len(records), func(i int) bool { return records[i].key.Compare(from) >= 0 })
	n := len(records)
	if namespace != "" {
		n = sort.Search(n, func(i int) bool { return records[i].key.Namespace > namespace })
	}
	return slices.Clone(records[i:max(i, n)])
}

// page selects among the records of a place.
func (at place) page(k *kind, sel selection, records []*record, limit int64) page {
	p := page{version: at.version}
	for i, r := range records {
		// What comes after a full page is not looked at: the next one may be empty.
		if limit > 0 && int64(len(p.records)) == limit {
			p.next = token{Version: int64(at.version), Rewinds: at.rewinds, Space: r.key.Namespace, Name: r.key.Name}.String()
			if sel.everything() {
				n := int64(len(records) - i)
				p.remaining = &n
			}
			break
		}
		if sel.matches(k, r) {
			p.records = append(p.records, r)
		}
	}
	return p
}

// state returns the records of a kind at a version, in order. For the newest they are
// the bucket's own, good while the lock is held; an older one is found by undoing changes.
func (s *storage) state(k *kind, version uint64) []*record {
	now := s.bucket(k).records
	if version >= s.version {
		return now
	}
	undone := map[object.Key]*record{}
	for i := len(s.log) - 1; i >= 0 && s.log[i].version > version; i-- {
		if c := &s.log[i]; c.kind == k.home {
			undone[c.key()] = c.old
		}
	}
	if len(undone) == 0 {
		return now
	}
	then := make([]*record, 0, len(now)+len(undone))
	for _, r := range now {
		if _, changed := undone[r.key]; !changed {
			then = append(then, r)
		}
	}
	for _, r := range undone {
		if r != nil {
			then = append(then, r)
		}
	}
	sort.Slice(then, func(i, j int) bool { return then[i].key.Compare(then[j].key) < 0 })
	return then
}

// parseVersion reads a version; "" and "0" are none.
func parseVersion(text string) (uint64, error) {
	if text == "" || text == "0" {
		return 0, nil
	}
	v, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: resourceVersion: Invalid value: %q: %v", text, err))
	}
	return v, nil
}

// expired is the answer to a list that is too old. For a page it has the token of the
// remainder at the newest version.
func (s *storage) expired(opts *internalversion.ListOptions) error {
	if opts.Continue == "" {
		return s.gone("The resourceVersion for the provided list is too old.")
	}
	err := s.gone("The provided continue parameter is too old to display a consistent list result. " +
		"You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. " +
		"Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.")
	if t, bad := parseToken(opts.Continue); bad == nil {
		t.Version = inconsistent
		err.ErrStatus.Continue = t.String()
	}
	return err
}

// tooLarge is the answer to a version that does not come.
func (s *storage) tooLarge(version, now uint64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", version, now), 1)
	if s.old {
		return err
	}
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	return err
}

// tooOld is the answer to a watch from a version that the history no longer reaches.
func (s *storage) tooOld(version, compacted uint64) *apierrors.StatusError {
	return s.gone(fmt.Sprintf("too old resource version: %d (%d)", version, compacted))
}

// gone is 410 for the reason that the server gives.
func (s *storage) gone(message string) *apierrors.StatusError {
	err := apierrors.NewResourceExpired(message)
	if s.old {
		err.ErrStatus.Reason = metav1.StatusReasonGone
	}
	return err
}
