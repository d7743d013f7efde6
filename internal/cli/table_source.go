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
	// frameLimit is the maximum size of an event, as in package stream.
	frameLimit = 16 << 20
	// listLimit is the maximum size of a list, or of a page of one: of some 200,000 pods.
	listLimit = 1 << 30
)

func (s *tableSource) request(verb wire.Verb, sel object.Selection, version object.Version, match object.Match) *wire.Request {
	return s.client.Request(verb).Resource(s.res).Key(object.Key{Namespace: sel.Namespace}).Retries(0).Accept(asTable).
		Param("labelSelector", sel.Labels).Param("fieldSelector", sel.Fields).Param("includeObject", string(metav1.IncludeMetadata)).
		Param("resourceVersion", string(version)).Param("resourceVersionMatch", string(match))
}

// tableText is a table as it is encoded, or what a server without tables sends: an object, or a list of them.
type tableText struct {
	objectText
	ColumnDefinitions []metav1.TableColumnDefinition
	Rows              []rowText
	Items             []objectText
}

// List implements [reflector.Source].
func (s *tableSource) List(ctx context.Context, opts object.ListOptions, _ *object.Intake[*tableRow], sink func(object.Item[*tableRow]) error) (page object.Page, err error) {
	r := s.request(wire.VerbList, opts.Selection, opts.Version, opts.Match).Param("continue", opts.Continue)
	if opts.Limit > 0 {
		r.Param("limit", strconv.FormatInt(opts.Limit, 10))
	}
	resp, err := r.Stream(ctx)
	if err != nil {
		return page, err
	}
	defer resp.Body.Close()
	var table tableText
	switch err := newFrames(resp.Body, listLimit).Decode(&table); {
	case err == io.EOF:
		return page, streamError(ctx, r.Call(), io.ErrUnexpectedEOF)
	case err != nil:
		return page, streamError(ctx, r.Call(), err)
	case table.Kind == "":
		return page, streamError(ctx, r.Call(), corrupt("a list without a kind"))
	case table.Kind != "Table" && !strings.HasSuffix(table.Kind, "List"):
		return page, streamError(ctx, r.Call(), fmt.Errorf("%w: want a Table, got %q", object.ErrWrongKind, table.Kind))
	}
	s.columns = table.ColumnDefinitions
	for _, obj := range table.Items {
		table.Rows = append(table.Rows, rowText{Object: obj})
	}
	for _, text := range table.Rows {
		row, err := s.row(text)
		if err != nil {
			return page, streamError(ctx, r.Call(), err)
		}
		item, err := object.ItemOf(rowAccessor, row)
		if err == nil {
			err = sink(item)
		}
		if err != nil {
			return page, err
		}
	}
	return object.Page{Version: table.Metadata.ResourceVersion, Continue: table.Metadata.Continue}, nil
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
	in := newFrames(resp.Body, frameLimit)
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
	var table tableText
	if err := newFrames(bytes.NewReader(raw), frameLimit).Decode(&table); err != nil {
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
	decoded, err := s.row(row)
	if err == nil {
		ev.Item, err = object.ItemOf(rowAccessor, decoded)
	}
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
		Continue          string // of a list
	}
}

// fallback are the columns of a server without tables.
var fallback = []metav1.TableColumnDefinition{{Name: "Name", Type: "string", Format: "name"}, {Name: "Age", Type: "string"}}

// row decodes a row. One without cells is that of an object.
func (s *tableSource) row(text rowText) (*tableRow, error) {
	meta := text.Object.Metadata
	if meta.Name == "" {
		return nil, corrupt("a row without the metadata of its object")
	}
	row := &tableRow{
		key: object.Key{Namespace: meta.Namespace, Name: meta.Name}, uid: meta.UID, version: meta.ResourceVersion,
		columns: s.columns, cells: text.Cells,
	}
	if text.Cells == nil {
		row.columns, row.cells = fallback, []any{meta.Name, age(meta.CreationTimestamp)}
	}
	return row, nil
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
	body  io.Reader
	limit int
	left  int // bytes that may be read for the present value
}

func newFrames(body io.Reader, limit int) *frames {
	f := &frames{body: body, limit: limit, left: limit}
	f.Decoder = json.NewDecoder(f)
	f.UseNumber() // cells are printed as they were sent
	return f
}

// Read implements [io.Reader] for the decoder.
func (f *frames) Read(p []byte) (int, error) {
	if f.left <= 0 {
		return 0, corrupt("a value of more than %d bytes", f.limit)
	}
	n, err := f.body.Read(p[:min(len(p), f.left)])
	f.left -= n
	return n, err
}

// Decode decodes the next value.
func (f *frames) Decode(into any) error {
	err := f.Decoder.Decode(into)
	f.left = f.limit
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
