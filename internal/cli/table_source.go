package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/reflector"
	"github.com/tarnproject/tarn/wire"
)

// tableRow is an object as a row of the server's table. It is read-only once it left the source.
type tableRow struct {
	key     object.Key
	uid     object.UID
	version object.Version
	columns []metav1.TableColumnDefinition // shared by the rows of a list or watch
	cells   []any
}

var rowAccessor = object.Accessor[*tableRow]{
	Key:     func(r *tableRow) (object.Key, error) { return r.key, nil },
	UID:     func(r *tableRow) object.UID { return r.uid },
	Version: func(r *tableRow) object.Version { return r.version },
}

// tableSource lists and watches a resource as the tables that kubectl shows. It implements
// [reflector.Source], so a mirror of rows has every guarantee of a mirror of objects. A server
// without tables sends objects, which become rows with name and age.
//
// Rejected: a mirror of objects and a request for the table of each change. The table would be
// newer than the change, and there is none after a deletion.
type tableSource struct {
	client *wire.Client
	res    object.Resource
	// columns are those of the latest table that had any: only the first table of a watch does.
	// Only the reflector's goroutine uses it.
	columns []metav1.TableColumnDefinition
}

const (
	asTable = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json"
	// frameLimit is the maximum size of a row or of an event, as in package stream.
	frameLimit = 16 << 20
)

func (s *tableSource) request(verb wire.Verb, sel object.Selection, version object.Version, match object.Match) *wire.Request {
	return s.client.Request(verb).Resource(s.res).Key(object.Key{Namespace: sel.Namespace}).Retries(0).Accept(asTable).
		Param("labelSelector", sel.Labels).Param("fieldSelector", sel.Fields).Param("includeObject", string(metav1.IncludeMetadata)).
		Param("resourceVersion", string(version)).Param("resourceVersionMatch", string(match))
}

// List implements [reflector.Source].
func (s *tableSource) List(ctx context.Context, opts object.ListOptions, _ *object.Intake[*tableRow], sink func(object.Item[*tableRow]) error) (object.Page, error) {
	r := s.request(wire.VerbList, opts.Selection, opts.Version, opts.Match).Param("continue", opts.Continue)
	if opts.Limit > 0 {
		r.Param("limit", strconv.FormatInt(opts.Limit, 10))
	}
	resp, err := r.Stream(ctx)
	if err != nil {
		return object.Page{}, err
	}
	defer resp.Body.Close()
	var refused error
	page, err := s.readList(newFrames(resp.Body), func(row *tableRow) error {
		item, err := object.ItemOf(rowAccessor, row)
		if err == nil {
			err = sink(item)
		}
		refused = err
		return err
	})
	switch {
	case refused != nil:
		return page, refused
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	return page, streamError(ctx, r.Call(), err)
}

// readList reads a Table, or a list of objects, row by row.
func (s *tableSource) readList(in *frames, sink func(*tableRow) error) (page object.Page, err error) {
	switch open, err := in.Token(); {
	case err != nil:
		return page, err
	case open != json.Delim('{'):
		return page, corrupt("a list that is not an object")
	}
	kind := ""
	for in.More() {
		field, err := in.Token()
		if err != nil {
			return page, err
		}
		switch field {
		case "kind":
			if err = in.Decode(&kind); err == nil && kind != "Table" && !strings.HasSuffix(kind, "List") {
				err = fmt.Errorf("%w: want a Table, got %q", object.ErrWrongKind, kind)
			}
		case "metadata":
			var meta metav1.ListMeta
			err = in.Decode(&meta)
			page = object.Page{Version: object.Version(meta.ResourceVersion), Continue: meta.Continue}
		case "columnDefinitions":
			s.columns = nil
			err = in.Decode(&s.columns)
		case "rows":
			err = each(in, func(row rowText) error { return s.deliver(row, sink) })
		case "items":
			err = each(in, func(obj objectText) error { return s.deliver(rowText{Object: obj}, sink) })
		default:
			err = in.Decode(new(json.RawMessage))
		}
		if err != nil {
			return page, err
		}
	}
	if _, err := in.Token(); err != nil {
		return page, err
	}
	if kind == "" {
		return page, corrupt("a list without a kind")
	}
	return page, nil
}

// each decodes the elements of a list; null is an empty one.
func each[E any](in *frames, f func(E) error) error {
	if open, err := in.Token(); err != nil || open != json.Delim('[') {
		return err
	}
	for in.More() {
		var e E
		if err := in.Decode(&e); err != nil {
			return err
		}
		if err := f(e); err != nil {
			return err
		}
	}
	_, err := in.Token()
	return err
}

// Watch implements [reflector.Source].
func (s *tableSource) Watch(ctx context.Context, opts object.WatchOptions, _ *object.Intake[*tableRow]) (object.Stream[*tableRow], error) {
	ctx, cancel := context.WithCancel(ctx)
	r := s.request(wire.VerbWatch, opts.Selection, opts.Version, opts.Match).Param("watch", "true").
		Param("allowWatchBookmarks", strconv.FormatBool(opts.Bookmarks)).
		Param("timeoutSeconds", strconv.FormatInt(int64(opts.Timeout/time.Second), 10))
	resp, err := r.Stream(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	in := newFrames(resp.Body)
	return reflector.StreamFuncs[*tableRow]{
		NextFunc: func() ([]object.Event[*tableRow], error) {
			var event struct {
				Type   string
				Object json.RawMessage
			}
			if err := in.Decode(&event); err != nil {
				return nil, streamError(ctx, r.Call(), err)
			}
			out, err := s.event(event.Type, event.Object, r.Call())
			return []object.Event[*tableRow]{out}, streamError(ctx, r.Call(), err)
		},
		CloseFunc: func() error {
			cancel()
			return resp.Body.Close()
		},
	}, nil
}

// event converts an event of a watch.
func (s *tableSource) event(kind string, raw json.RawMessage, call wire.Call) (ev object.Event[*tableRow], err error) {
	if kind == "ERROR" {
		var status metav1.Status
		err := json.Unmarshal(raw, &status)
		ev.Err = s.client.StatusError(call, &status)
		return ev, err
	}
	var table struct {
		objectText
		ColumnDefinitions []metav1.TableColumnDefinition
		Rows              []rowText
	}
	if err := newFrames(bytes.NewReader(raw)).Decode(&table); err != nil {
		return ev, err
	}
	row := rowText{Object: table.objectText}
	switch {
	case table.Kind == "Table" && len(table.Rows) == 1:
		row = table.Rows[0]
	case table.Kind == "Table" && kind == "BOOKMARK":
	case table.Kind == "Table":
		return ev, corrupt("a table with %d rows in an event", len(table.Rows))
	case table.Kind != s.res.Kind:
		return ev, fmt.Errorf("%w: want a Table, got %q", object.ErrWrongKind, table.Kind)
	}
	if len(table.ColumnDefinitions) > 0 {
		s.columns = table.ColumnDefinitions
	}
	kinds := map[string]object.Kind{"ADDED": object.Added, "MODIFIED": object.Updated, "DELETED": object.Deleted}
	if ev.Kind = kinds[kind]; ev.Kind == 0 {
		ev.Bookmark = kind == "BOOKMARK"
		ev.Item.Version = cmp.Or(row.Object.Metadata.ResourceVersion, table.Metadata.ResourceVersion)
		return ev, nil
	}
	err = s.deliver(row, func(r *tableRow) (err error) {
		ev.Item, err = object.ItemOf(rowAccessor, r)
		return err
	})
	return ev, err
}

// rowText is a row of a table as it is encoded.
type rowText struct {
	Cells  []any
	Object objectText
}

// objectText is the part of an object that a row needs.
type objectText struct {
	Kind     string
	Metadata struct {
		Namespace, Name   string
		UID               object.UID
		ResourceVersion   object.Version
		CreationTimestamp metav1.Time
	}
}

// fallback are the columns of a server without tables.
var fallback = []metav1.TableColumnDefinition{{Name: "Name", Type: "string", Format: "name"}, {Name: "Age", Type: "string"}}

// deliver passes a row on. A row without cells is that of an object.
func (s *tableSource) deliver(text rowText, sink func(*tableRow) error) error {
	meta := text.Object.Metadata
	if meta.Name == "" {
		return corrupt("a row without the metadata of its object")
	}
	row := &tableRow{
		key: object.Key{Namespace: meta.Namespace, Name: meta.Name}, uid: meta.UID, version: meta.ResourceVersion,
		columns: s.columns, cells: text.Cells,
	}
	if text.Cells == nil {
		row.columns, row.cells = fallback, []any{meta.Name, age(meta.CreationTimestamp)}
	}
	return sink(row)
}

// age returns an object's age in kubectl's format.
func age(created metav1.Time) string {
	if created.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(max(time.Since(created.Time), 0))
}

// frames decodes JSON values from a stream and limits the size of each.
type frames struct {
	*json.Decoder
	body io.Reader
	left int // bytes that may be read for the present value
}

func newFrames(body io.Reader) *frames {
	f := &frames{body: body, left: frameLimit}
	f.Decoder = json.NewDecoder(f)
	f.UseNumber() // cells are printed as they were sent
	return f
}

// Read implements [io.Reader] for the decoder.
func (f *frames) Read(p []byte) (int, error) {
	if f.left <= 0 {
		return 0, corrupt("a value of more than %d bytes", frameLimit)
	}
	n, err := f.body.Read(p[:min(len(p), f.left)])
	f.left -= n
	return n, err
}

// Decode decodes the next value.
func (f *frames) Decode(into any) error {
	err := f.Decoder.Decode(into)
	f.left = frameLimit
	return err
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", object.ErrCorrupt, fmt.Sprintf(format, args...))
}

// streamError adds the call to an error. io.EOF, the normal end of a watch, stays.
func streamError(ctx context.Context, call wire.Call, err error) error {
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil || err == io.EOF:
		return err
	case ctx.Err() != nil:
		err = ctx.Err()
	case errors.As(err, &syntax), errors.As(err, &wrong):
		err = corrupt("invalid JSON")
	}
	return &wire.TransportError{Call: call, Err: err, Attempts: 1}
}
