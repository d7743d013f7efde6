package sim

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/tarnproject/tarn/object"
)

// List serves one page of a list, item by item, with the meanings that the API gives to
// version, match, limit and continue. Between items the world may go on.
func (s *Server) List(ctx context.Context, opts object.ListOptions, in *object.Intake[*Thing], sink func(object.Item[*Thing]) error) (object.Page, error) {
	if ctx.Err() != nil {
		return object.Page{}, context.Cause(ctx)
	}
	items, page, history, err := s.page(opts)
	if err != nil {
		s.trace.Add("server", "list %s refused: %v", describeList(opts), err)
		return object.Page{}, err
	}
	s.trace.Add("server", "list %s: %d items at %s, continue %q", describeList(opts), len(items), page.Version, page.Continue)
	for _, t := range items {
		if s.Idle != nil {
			s.Idle(nil)
		}
		if ctx.Err() != nil {
			return object.Page{}, context.Cause(ctx)
		}
		if s.Rewinds() != history {
			break
		}
		if err := sink(itemOf(t, in)); err != nil {
			return object.Page{}, err
		}
	}
	if s.Rewinds() != history {
		return object.Page{}, fmt.Errorf("reading the list: %w", io.ErrUnexpectedEOF)
	}
	return page, nil
}

func describeList(o object.ListOptions) string {
	text := "at " + strconv.Quote(string(o.Version))
	if o.Match != "" {
		text += " " + string(o.Match)
	}
	if o.Limit > 0 {
		text += " limit " + strconv.FormatInt(o.Limit, 10)
	}
	if o.Continue != "" {
		text += " continue " + o.Continue
	}
	if o.Selection != (object.Selection{}) {
		text += " of " + o.Namespace + "/" + o.Labels + "/" + o.Fields + " " + o.Shard.Selector()
	}
	return text
}

// itemOf makes the item of a list or an event: a fresh object, as from a decoder.
func itemOf(t *Thing, in *object.Intake[*Thing]) object.Item[*Thing] {
	item := object.Item[*Thing]{Key: t.key(), UID: t.UID, Version: t.version()}
	if in.Holds(item.Key, item.UID, item.Version) {
		item.Held = true
	} else {
		item.Object = t.clone()
	}
	return item
}

// page finds what a page has, under the lock, and in which history.
func (s *Server) page(opts object.ListOptions) (items []*Thing, page object.Page, history int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.removed {
		return nil, page, 0, notFound()
	}
	m := s.matcher(opts.Selection)
	if m.err != nil {
		return nil, page, 0, badRequest("%v", m.err)
	}
	at, from, err := s.place(opts)
	if err != nil {
		return nil, page, 0, err
	}
	limit := int(opts.Limit)
	if opts.Version == "0" && s.quirks.LimitIgnored {
		limit = 0
	}
	state := s.stateAt(at)
	page.Version, page.Sharded = format(at), s.quirks.Shards && !opts.Shard.IsZero()
	empty := s.quirks.EmptyPages && limit > 0 && !strings.HasSuffix(opts.Continue, skipped)
	for _, k := range sortedKeys(state) {
		t := state[k]
		if k.Compare(from) < 0 || !m.matches(t) {
			continue
		}
		if empty || limit > 0 && len(items) == limit {
			if page.Continue == "" {
				page.Continue = s.continueAt(at, k)
				if empty {
					page.Continue += skipped
				}
			}
			page.Remaining++
			continue
		}
		items = append(items, t)
	}
	if opts.Labels != "" || opts.Fields != "" {
		page.Remaining = 0 // as the API says: unknown where there is a selector
	}
	return items, page, len(s.restores), nil
}

// place returns the version that a request for a list means, and the key it begins at.
func (s *Server) place(opts object.ListOptions) (at uint64, from object.Key, err error) {
	if opts.Continue != "" {
		if opts.Version != "" || opts.Match != "" {
			return 0, from, badRequest("a continue token goes with neither resourceVersion nor resourceVersionMatch")
		}
		return s.resume(opts)
	}
	if opts.Match != "" && opts.Version == "" {
		return 0, from, badRequest("resourceVersionMatch is forbidden unless resourceVersion is provided")
	}
	switch opts.Version {
	case "":
		return s.version, from, nil
	case "0":
		if opts.Match == object.Exact {
			return 0, from, badRequest("resourceVersionMatch Exact is forbidden for resourceVersion 0")
		}
		if opts.Limit > 0 && !s.quirks.LimitIgnored {
			return s.version, from, nil // not from the cache
		}
		return s.behind(0), from, nil
	}
	at, err = parse(opts.Version)
	if err != nil {
		return 0, from, err
	}
	if at > s.version {
		return 0, from, s.quirks.tooLarge(at, s.version)
	}
	if opts.Match == object.Exact || opts.Match == "" && opts.Limit > 0 {
		if at < s.compacted {
			return 0, from, s.quirks.gone(at, s.compacted)
		}
		return at, from, nil
	}
	if opts.Limit > 0 {
		return s.version, from, nil
	}
	return s.behind(at), from, nil
}

// behind returns the version at which the cache stands: not older than one.
func (s *Server) behind(oldest uint64) uint64 {
	at := s.version
	if lag := s.quirks.Lag; lag > 0 && len(s.log) > 0 {
		// Which lag it is just now follows from the version: there is no dice here.
		back := int(s.version) % (lag + 1)
		if i := len(s.log) - 1 - back; back > 0 && i >= 0 {
			at = s.log[i].version
		}
	}
	return min(s.version, max(at, oldest, s.compacted))
}

const (
	skipped      = "+" // the page before was left empty
	inconsistent = "-1"
)

// continueAt makes a token. One of an earlier history has expired.
func (s *Server) continueAt(at uint64, from object.Key) string {
	return fmt.Sprintf("%d|%d|%s", at, len(s.restores), from)
}

// resume reads a continue token.
func (s *Server) resume(opts object.ListOptions) (at uint64, from object.Key, err error) {
	version, rest, _ := strings.Cut(strings.TrimSuffix(opts.Continue, skipped), "|")
	history, key, _ := strings.Cut(rest, "|")
	if from, err = object.Parse(key); err != nil {
		return 0, from, badRequest("continue key is not valid: %v", err)
	}
	if version == inconsistent {
		return s.version, from, nil
	}
	if at, err = parse(object.Version(version)); err != nil {
		return 0, from, err
	}
	if at < s.compacted || history != strconv.Itoa(len(s.restores)) {
		gone := s.quirks.gone(at, s.compacted)
		if s.quirks.InconsistentContinue {
			gone.ErrStatus.ListMeta.Continue = inconsistent + "|" + rest
		}
		return 0, from, gone
	}
	return at, from, nil
}

func parse(v object.Version) (uint64, error) {
	n, err := strconv.ParseUint(string(v), 10, 64)
	if err != nil || !v.Ordered() {
		return 0, badRequest("invalid resource version %q", v)
	}
	return n, nil
}

func format(v uint64) object.Version { return object.Version(strconv.FormatUint(v, 10)) }
