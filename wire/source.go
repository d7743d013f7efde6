package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/tarnproject/tarn/object"
)

// SourceOptions say how a [Source] asks and how it decodes. The zero SourceOptions
// work.
type SourceOptions struct {
	// Drop are fields that are skipped in the bytes and never become part of an
	// object. Defaults to none.
	Drop []object.FieldPath
	// DisableSharing gives every object its own parts. Without it, parts of objects
	// that are encoded alike (the containers of the pods of one template, say) are
	// decoded once and shared by all objects that have them, so the receiver must not
	// write to an object. A request with Owned set never shares, whatever this says.
	// Defaults to false.
	DisableSharing bool
	// Lazy leaves objects encoded: an item has its key, UID, version and Raw, its
	// Object is zero, and [Source.Decode] makes the object. Raw is valid until the
	// sink returns, or until the stream's next Next. Defaults to false.
	Lazy bool
	// Hook may change the query of each request before it is sent. Defaults to none.
	Hook func(verb Verb, query url.Values)
	// DisablePaging leaves out the limit that a list asks for, so that the server
	// answers with everything at once. Defaults to false.
	DisablePaging bool
	// ListKind is the kind of a list, for custom resources with a listKind of their
	// own. Defaults to the kind with "List" behind it.
	ListKind string
	// Parallel is on how many cores objects are decoded at the most. Defaults to
	// GOMAXPROCS.
	Parallel int
	// Window is how many bytes of encoded objects a list holds at the most while
	// they are decoded. A watch, of which there are many at a time, holds a quarter
	// of it while they wait for the receiver. One object may be longer. Defaults to
	// 1 MiB.
	Window int
	// FrameLimit is the length in bytes up to which an item of a list or an event of
	// a watch is read; a longer one is an object.ErrCorrupt. Defaults to 16 MiB, ten
	// times what etcd stores by default.
	FrameLimit int
	// Retries is how often a request is sent again by itself before List or Watch
	// return its error. Defaults to 0, since whoever mirrors a resource backs off
	// in its own way, and shows that it does.
	Retries int
}

func (o SourceOptions) withDefaults() SourceOptions {
	if o.Parallel == 0 {
		o.Parallel = runtime.GOMAXPROCS(0)
	}
	if o.Window == 0 {
		o.Window = 1 << 20
	}
	if o.FrameLimit == 0 {
		o.FrameLimit = 16 << 20
	}
	return o
}

// Valid returns an error that names the first field with an impossible value.
func (o SourceOptions) Valid() error {
	switch {
	case o.Parallel < 0:
		return errors.New("wire: SourceOptions.Parallel is negative; leave it 0 for all cores, 1 for one")
	case o.Window < 0:
		return errors.New("wire: SourceOptions.Window is negative; leave it 0 for the default")
	case o.FrameLimit < 0:
		return errors.New("wire: SourceOptions.FrameLimit is negative; leave it 0 for the default")
	case o.FrameLimit > 1<<30:
		return errors.New("wire: SourceOptions.FrameLimit is above 1 GiB")
	case o.Retries < 0:
		return errors.New("wire: SourceOptions.Retries is negative")
	}
	return nil
}

// Source lists and watches one selection of a resource for somebody who mirrors it.
// It decodes bodies while they arrive, never holds one whole, does not decode what
// the receiver holds already, and delivers in the order of the server.
//
// A Source holds no connection and no goroutine; a stream from Watch does, until it
// is closed or its context ends. All methods may be called from any goroutine.
//
// A list or watch waits for the server as long as its context allows. The reflector ends
// one that is silent for too long (W13); other callers set a deadline on the context.
type Source[T any] struct {
	client   *Client
	resource Resource[T]
	sel      object.Selection
	opts     SourceOptions
	codecs   codecs[T]
	owned    func() (codecs[T], error) // codecs that share nothing
	batches  sync.Pool                 // of *batch[T]
}

// Source returns a source of what sel selects.
func (a *API[T]) Source(sel object.Selection, opts SourceOptions) (*Source[T], error) {
	if err := a.resource.Valid(); err != nil {
		return nil, err
	}
	if err := opts.Valid(); err != nil {
		return nil, err
	}
	s := &Source[T]{client: a.client, resource: a.resource, sel: sel, opts: opts.withDefaults()}
	var err error
	if s.codecs, err = newCodecs(a.resource, s.opts); err != nil {
		return nil, err
	}
	s.owned = func() (codecs[T], error) { return s.codecs, nil }
	if !s.opts.DisableSharing {
		s.owned = sync.OnceValues(func() (codecs[T], error) {
			alone := s.opts
			alone.DisableSharing = true
			return newCodecs(a.resource, alone)
		})
	}
	return s, nil
}

// Resource returns what the source lists and watches.
func (s *Source[T]) Resource() object.Resource { return s.resource.Resource }

// Selection returns which part of the resource that is.
func (s *Source[T]) Selection() object.Selection { return s.sel }

// Decode reads an object that a Lazy source left encoded.
func (s *Source[T]) Decode(raw []byte) (T, error) {
	// An object in protobuf begins with the tag of a field, never with a brace.
	enc := JSON
	if s.codecs.proto != nil && (len(raw) == 0 || raw[0] != '{') {
		enc = Protobuf
	}
	var none T
	c, err := s.codecs.of(enc)
	if err != nil {
		return none, err
	}
	var item object.Item[T]
	r := reading[T]{codec: c, decoder: c.decoder(true)}
	r.read(raw, &item)
	return item.Object, item.Err
}

// request builds the request of a list or a watch.
func (s *Source[T]) request(verb Verb, sel object.Selection, query url.Values) (*Request, error) {
	sel, err := s.narrow(sel)
	if err != nil {
		return nil, err
	}
	set(query, "labelSelector", sel.Labels)
	set(query, "fieldSelector", sel.Fields)
	if s.opts.Hook != nil {
		s.opts.Hook(verb, query)
	}
	r := s.client.Request(verb).Resource(s.resource.Resource).Namespace(sel.Namespace).
		Accept(s.accept(verb)).Retries(s.opts.Retries)
	r.params = query
	return r, nil
}

func set(query url.Values, name, value string) {
	if value != "" {
		query.Set(name, value)
	}
}

// narrow adds a request's own selection to the source's.
func (s *Source[T]) narrow(sel object.Selection) (object.Selection, error) {
	switch {
	case sel.Namespace == "":
		sel.Namespace = s.sel.Namespace
	case s.sel.Namespace != "" && s.sel.Namespace != sel.Namespace:
		return sel, fmt.Errorf("wire: the source is of namespace %q, not of %q", s.sel.Namespace, sel.Namespace)
	}
	sel.Labels = both(s.sel.Labels, sel.Labels)
	sel.Fields = both(s.sel.Fields, sel.Fields)
	return sel, nil
}

// both joins two selectors, of which each may be empty.
func both(a, b string) string {
	if a == "" || a == b {
		return b
	}
	if b == "" {
		return a
	}
	return a + "," + b
}

// accept returns the content types that the answer may have.
func (s *Source[T]) accept(verb Verb) string {
	const jsonType, protoType = "application/json", "application/vnd.kubernetes.protobuf"
	as := ""
	if s.resource.form == metadata {
		as = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
		if verb == VerbWatch {
			as = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
		}
	}
	types := jsonType
	if as != "" {
		// A server that cannot leave anything out sends whole objects.
		types = jsonType + as + "," + jsonType
	}
	if s.codecs.proto != nil {
		types = protoType + as + "," + types
	}
	return types
}

// open sends a request and returns the body of its answer with the codec for it. Objects
// that are owned share nothing.
func (s *Source[T]) open(ctx context.Context, r *Request, want kindCheck, owned bool) (io.ReadCloser, codec[T], error) {
	resp, err := r.Stream(ctx)
	if err != nil {
		return nil, nil, err
	}
	c, err := s.codecOf(resp, want, owned)
	if err != nil {
		resp.Body.Close()
		return nil, nil, err
	}
	return resp.Body, c, nil
}

// codecOf returns the codec for an answer.
func (s *Source[T]) codecOf(resp *http.Response, want kindCheck, owned bool) (codec[T], error) {
	header := resp.Header.Get("Content-Type")
	media, _, err := mime.ParseMediaType(header)
	if err != nil && header != "" {
		media = "unreadable"
	}
	var enc Encoding
	switch media {
	case "application/vnd.kubernetes.protobuf":
		enc = Protobuf
	case "application/json", "":
		enc = JSON
	}
	from := s.codecs
	if owned {
		if from, err = s.owned(); err != nil {
			return nil, err
		}
	}
	c, err := from.of(enc)
	if c == nil && err == nil {
		err = want.wrong("content type " + media)
	}
	return c, err
}

// objectKind is the kind that the objects of a watch have.
func (s *Source[T]) objectKind(call Call) kindCheck {
	return s.kinds(call, s.resource.Kind, "PartialObjectMetadata")
}

// listKind is the kind that a list has.
func (s *Source[T]) listKind(call Call) kindCheck {
	kind := s.opts.ListKind
	if kind == "" {
		kind = s.resource.Kind + "List"
	}
	return s.kinds(call, kind, "PartialObjectMetadataList")
}

func (s *Source[T]) kinds(call Call, kind, partial string) kindCheck {
	own := kindText{s.resource.GVK().GroupVersion().String(), kind}
	if s.resource.form == metadata {
		return kindCheck{call: call, secrets: s.client.secrets, want: kindText{"meta.k8s.io/v1", partial}, also: own}
	}
	return kindCheck{call: call, secrets: s.client.secrets, want: own}
}

// seconds writes a duration as the API wants it, rounded up.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}
