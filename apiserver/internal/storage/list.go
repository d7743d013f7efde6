package storage

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

	"github.com/tarnproject/tarn/apiserver/internal/apierror"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/object"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// freshness is how long a list or streaming list waits for a resource version in the
// future.
const freshness = 3 * time.Second

// Page is one page of a list.
type Page struct {
	Records   []*kinds.Record
	Version   uint64
	Next      string            // continue token; empty on the last page
	Remaining *int64            // number of items after this page, if known
	Shard     *metav1.ShardInfo // what was applied; nil for none
}

// position is the version of the history and the first key that a page is read from.
type position struct {
	version uint64     // 0 for the latest
	from    object.Key // first key of the page
	rewinds int        // rewind count that the version belongs to; -1 for any
}

// Token is the content of a continue token.
type Token struct {
	Version int64  `json:"rv"` // -1 for the latest
	Rewinds int    `json:"history"`
	Space   string `json:"namespace"`
	Name    string `json:"name"`
}

const inconsistent = -1

// String returns the continue token that a client sends back.
func (t Token) String() string {
	text, _ := json.Marshal(t) // cannot fail on strings and numbers
	return base64.RawURLEncoding.EncodeToString(text)
}

func parseToken(s string) (t Token, err error) {
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

// List returns one page, with the API's semantics of resourceVersion, resourceVersionMatch,
// limit and continue.
func (s *Storage) List(ctx context.Context, k *kinds.Kind, sel Selection, opts *internalversion.ListOptions) (Page, error) {
	at, limit, err := s.place(ctx, opts)
	if err != nil {
		return Page{}, err
	}
	records, at, err := s.choose(k, sel, at, opts)
	if err != nil {
		return Page{}, err
	}
	return at.page(k, sel, records, limit), nil
}

// choose returns the candidate records for a page and the position they are from.
func (s *Storage) choose(k *kinds.Kind, sel Selection, at position, opts *internalversion.ListOptions) ([]*kinds.Record, position, error) {
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

// place returns the position that a list asks for. It waits for a version in the future.
func (s *Storage) place(ctx context.Context, opts *internalversion.ListOptions) (at position, limit int64, err error) {
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
	version, err := ParseVersion(opts.ResourceVersion)
	switch {
	case err != nil:
		return at, 0, apierrors.NewBadRequest("invalid resource version: " + err.Error())
	case opts.ResourceVersion == "0":
		return at, 0, nil // served from the watch cache, which ignores the limit
	case version == 0:
		return at, limit, nil
	}
	if err := s.Await(ctx, version); err != nil {
		return at, 0, err
	}
	match := opts.ResourceVersionMatch
	if match == metav1.ResourceVersionMatchExact || match == "" && limit > 0 {
		at.version = version
	}
	return at, limit, nil
}

// Await waits up to freshness for a version.
func (s *Storage) Await(ctx context.Context, version uint64) error {
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
			return s.tooLarge(version, s.Now())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// copy returns the records of a namespace, or of all namespaces, starting at a position.
// The caller must hold the lock. Selectors may be slow and are applied later, without it.
func (s *Storage) copy(k *kinds.Kind, namespace string, at position) []*kinds.Record {
	records := s.state(k, at.version)
	from := at.from
	if first := (object.Key{Namespace: namespace}); from.Compare(first) < 0 {
		from = first
	}
	i := sort.Search(len(records), func(i int) bool { return records[i].Key.Compare(from) >= 0 })
	n := len(records)
	if namespace != "" {
		n = sort.Search(n, func(i int) bool { return records[i].Key.Namespace > namespace })
	}
	return slices.Clone(records[i:max(i, n)])
}

// page applies the selection and the limit to the records at a position.
func (at position) page(k *kinds.Kind, sel Selection, records []*kinds.Record, limit int64) Page {
	p := Page{Version: at.version, Shard: sel.shardInfo()}
	for i, r := range records {
		// Items after a full page are not examined, so the next page may be empty.
		if limit > 0 && int64(len(p.Records)) == limit {
			p.Next = Token{Version: int64(at.version), Rewinds: at.rewinds, Space: r.Key.Namespace, Name: r.Key.Name}.String()
			if sel.everything() {
				n := int64(len(records) - i)
				p.Remaining = &n
			}
			break
		}
		if sel.matches(k, r) {
			p.Records = append(p.Records, r)
		}
	}
	return p
}

// state returns the sorted records of a kind at a version. The latest state is the bucket's
// own slice, valid only while the lock is held. An older state is derived by undoing
// changes.
func (s *Storage) state(k *kinds.Kind, version uint64) []*kinds.Record {
	now := s.bucket(k).records
	if version >= s.version {
		return now
	}
	undone := map[object.Key]*kinds.Record{}
	for i := len(s.log) - 1; i >= 0 && s.log[i].version > version; i-- {
		if c := &s.log[i]; c.kind == k.Storage {
			undone[c.key()] = c.old
		}
	}
	if len(undone) == 0 {
		return now
	}
	then := make([]*kinds.Record, 0, len(now)+len(undone))
	for _, r := range now {
		if _, changed := undone[r.Key]; !changed {
			then = append(then, r)
		}
	}
	for _, r := range undone {
		if r != nil {
			then = append(then, r)
		}
	}
	sort.Slice(then, func(i, j int) bool { return then[i].Key.Compare(then[j].Key) < 0 })
	return then
}

// ParseVersion parses the resource version of a request; "" and "0" return 0.
func ParseVersion(text string) (uint64, error) {
	if text == "" || text == "0" {
		return 0, nil
	}
	v, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, apierror.Failed(fmt.Sprintf("resourceVersion: Invalid value: %q: %v", text, err))
	}
	return v, nil
}

// expired returns the 410 error for a list. For a later page it includes a token that
// continues at the latest version.
func (s *Storage) expired(opts *internalversion.ListOptions) error {
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

// tooLarge returns the error for a resource version that was not reached in time.
func (s *Storage) tooLarge(version, now uint64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", version, now), 1)
	if s.old {
		return err
	}
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	return err
}

// TooOld returns the 410 error for a watch from before the history.
func (s *Storage) TooOld(version, compacted uint64) *apierrors.StatusError {
	return s.gone(fmt.Sprintf("too old resource version: %d (%d)", version, compacted))
}

// gone returns a 410 error with the reason of the emulated server version.
func (s *Storage) gone(message string) *apierrors.StatusError {
	err := apierrors.NewResourceExpired(message)
	if s.old {
		err.ErrStatus.Reason = metav1.StatusReasonGone
	}
	return err
}
