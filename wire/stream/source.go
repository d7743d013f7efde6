package stream

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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// Options configure a [Source]. The zero Options work.
type Options struct {
	// Drop are fields that the decoder skips, so that they are never part of an object.
	// Defaults to none.
	Drop []object.FieldPath
	// DisableSharing gives every object its own memory. Without it, parts that are encoded
	// alike, such as the containers of the pods of one template, are decoded once and
	// shared, so the receiver must not write to an object. A request with Owned set never shares.
	// Defaults to false.
	DisableSharing bool
	// Lazy leaves objects encoded: an item has its key, UID, version and Raw, but no
	// Object; [Source.Decode] decodes it. Raw is valid until the sink returns, or until the
	// next call of the stream's Next. Defaults to false.
	Lazy bool
	// Whole keeps fields that T does not have in an object's encoding, for readers that decode it as
	// another type. Only JSON has such fields. Defaults to false.
	Whole bool
	// Hook may change the query of each request before it is sent. It must be safe for
	// concurrent use. Defaults to none.
	Hook func(verb wire.Verb, query url.Values)
	// ListKind is the kind of lists, for a custom resource that sets listKind. Defaults to
	// the kind followed by "List".
	ListKind string
	// FrameLimit is the maximum size in bytes of an item of a list or an event of a watch.
	// A larger one is an object.ErrCorrupt. Defaults to 16 MiB, ten times what etcd accepts
	// by default.
	FrameLimit int

	// Tests set these.
	parallel int // cores that decode; defaults to GOMAXPROCS
	window   int // encoded bytes that a list buffers, and a watch a quarter of it; defaults to 1 MiB
}

func (o Options) withDefaults() Options {
	if o.FrameLimit == 0 {
		o.FrameLimit = 16 << 20
	}
	if o.parallel == 0 {
		o.parallel = runtime.GOMAXPROCS(0)
	}
	if o.window == 0 {
		o.window = 1 << 20
	}
	return o
}

func (o Options) valid() error {
	switch {
	case o.FrameLimit < 0:
		return errors.New("stream: Options.FrameLimit is negative; leave it 0 for the default")
	case o.FrameLimit > 1<<30:
		return errors.New("stream: Options.FrameLimit is above 1 GiB")
	}
	return nil
}

// Source lists and watches one selection of a resource. A reflector runs it to maintain a
// mirror; it implements reflector.Source. All methods are safe for concurrent use.
//
// A Source holds no connection and no goroutine. A stream of Watch does until it is closed or
// its context is done.
//
// A Source does not retry and sets no deadline: the reflector does both (W13). Other callers
// set a deadline on the context.
type Source[T any] struct {
	client   *wire.Client
	resource wire.Resource[T]
	metadata bool // only metadata is requested
	sel      object.Selection
	opts     Options
	retry    bool // requests are retried as the client's options say
	codecs   codecs[T]
	owned    func() (codecs[T], error) // codecs that share nothing
	batches  sync.Pool                 // of *batch[T]
	trimmed  sync.Pool                 // of *[]byte
}

// NewSource returns a source of the objects that sel selects. The error names the invalid
// option.
func NewSource[T any](api *wire.API[T], sel object.Selection, opts Options) (*Source[T], error) {
	res := api.Resource()
	if err := res.Valid(); err != nil {
		return nil, err
	}
	if err := opts.valid(); err != nil {
		return nil, err
	}
	s := &Source[T]{client: api.Client(), resource: res, sel: sel, opts: opts.withDefaults()}
	_, s.metadata = any(res.New()).(*metav1.PartialObjectMetadata)
	var err error
	if s.codecs, err = newCodecs(res, s.opts); err != nil {
		return nil, err
	}
	s.owned = func() (codecs[T], error) { return s.codecs, nil }
	if !s.opts.DisableSharing {
		s.owned = sync.OnceValues(func() (codecs[T], error) {
			alone := s.opts
			alone.DisableSharing = true
			return newCodecs(res, alone)
		})
	}
	return s, nil
}

// Resource returns the resource that the source lists and watches.
func (s *Source[T]) Resource() object.Resource { return s.resource.Resource }

// Decode decodes an object that a Lazy source left encoded.
func (s *Source[T]) Decode(raw []byte) (T, error) {
	// A protobuf object starts with a field tag, which is never a brace.
	enc := wire.JSON
	if s.codecs.proto != nil && (len(raw) == 0 || raw[0] != '{') {
		enc = wire.Protobuf
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

// reading returns how the objects of a response are decoded.
func (s *Source[T]) reading(c codec[T], inList bool, in *object.Intake[T]) reading[T] {
	r := reading[T]{codec: c, decoder: c.decoder(inList), in: in}
	if in != nil && in.Encode != nil && in.Transform == nil {
		r.buffers = &s.trimmed
		if in.Reads != nil {
			r.part = c.part(inList, in.Reads)
			if d, ok := r.part.(interface{ Reuse(T) }); ok {
				r.reuse = d.Reuse
			}
		}
	}
	return r
}

// request builds the request of a list or a watch. It returns the intake with the request's shard.
func (s *Source[T]) request(verb wire.Verb, sel object.Selection, query url.Values, in *object.Intake[T]) (*wire.Request, *object.Intake[T], error) {
	sel, err := s.narrow(sel)
	if err != nil {
		return nil, nil, err
	}
	if !sel.Shard.IsZero() && (in == nil || in.Shard != sel.Shard) {
		sharded := object.Intake[T]{}
		if in != nil {
			sharded = *in
		}
		sharded.Shard, in = sel.Shard, &sharded
	}
	set(query, "labelSelector", sel.Labels)
	set(query, "fieldSelector", sel.Fields)
	set(query, "shardSelector", sel.Shard.Selector())
	if s.opts.Hook != nil {
		s.opts.Hook(verb, query)
	}
	r := s.client.Request(verb).Resource(s.resource.Resource).Key(object.Key{Namespace: sel.Namespace}).
		Params(query).Accept(s.resource.Accept(verb))
	if !s.retry {
		r.Retries(0)
	}
	return r, in, nil
}

func set(query url.Values, name, value string) {
	if value != "" {
		query.Set(name, value)
	}
}

// narrow combines the selection of a request with the source's.
func (s *Source[T]) narrow(sel object.Selection) (object.Selection, error) {
	switch {
	case sel.Namespace == "":
		sel.Namespace = s.sel.Namespace
	case s.sel.Namespace != "" && s.sel.Namespace != sel.Namespace:
		return sel, fmt.Errorf("stream: the source covers namespace %q; it cannot list or watch %q", s.sel.Namespace, sel.Namespace)
	}
	switch {
	case sel.Shard.IsZero():
		sel.Shard = s.sel.Shard
	case !s.sel.Shard.IsZero() && s.sel.Shard != sel.Shard:
		return sel, fmt.Errorf("stream: the source covers a shard of its own (%s); it cannot list or watch another", s.sel.Shard)
	}
	sel.Labels = both(s.sel.Labels, sel.Labels)
	sel.Fields = both(s.sel.Fields, sel.Fields)
	return sel, nil
}

// both joins two selectors; each may be empty.
func both(a, b string) string {
	if a == "" || a == b {
		return b
	}
	if b == "" {
		return a
	}
	return a + "," + b
}

// open sends a request and returns the response body and its codec. If owned is set, objects
// share no memory.
func (s *Source[T]) open(ctx context.Context, r *wire.Request, want kindCheck, owned bool) (io.ReadCloser, codec[T], error) {
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

// codecOf returns the codec for the content type of a response.
func (s *Source[T]) codecOf(resp *http.Response, want kindCheck, owned bool) (codec[T], error) {
	header := resp.Header.Get("Content-Type")
	media, _, err := mime.ParseMediaType(header)
	if err != nil && header != "" {
		media = "unreadable"
	}
	var enc wire.Encoding
	switch media {
	case "application/vnd.kubernetes.protobuf":
		enc = wire.Protobuf
	case "application/json", "":
		enc = wire.JSON
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

// objectKind returns the expected kind of the objects of a watch.
func (s *Source[T]) objectKind(call wire.Call) kindCheck {
	return s.kinds(call, s.resource.Kind, "PartialObjectMetadata")
}

// listKind returns the expected kind of a list.
func (s *Source[T]) listKind(call wire.Call) kindCheck {
	kind := s.opts.ListKind
	if kind == "" {
		kind = s.resource.Kind + "List"
	}
	return s.kinds(call, kind, "PartialObjectMetadataList")
}

func (s *Source[T]) kinds(call wire.Call, kind, partial string) kindCheck {
	own := kindText{s.resource.GVK().GroupVersion().String(), kind}
	if s.metadata {
		return kindCheck{client: s.client, call: call, want: kindText{"meta.k8s.io/v1", partial}, also: own}
	}
	return kindCheck{client: s.client, call: call, want: own}
}

// seconds formats a duration in whole seconds, rounded up, as the API expects it.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}
