package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"

	"github.com/munnerz/goautoneg"
	"github.com/tarnproject/tarn/apiserver/internal/apierror"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/storage"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// codecs encodes and decodes with apimachinery's serializers and not with Tarn's own, so
// that a bug in Tarn's cannot cancel itself out in tests. It is stateless.
type codecs struct {
	infos  [kinds.Encodings]runtime.SerializerInfo
	decode runtime.Decoder
}

func newCodecs() *codecs {
	factory := serializer.NewCodecFactory(scheme.Scheme, serializer.WithStreamingCollectionEncodingToJSON(), serializer.WithStreamingCollectionEncodingToProtobuf())
	c := &codecs{decode: factory.UniversalDeserializer()}
	for _, info := range factory.SupportedMediaTypes() {
		switch info.MediaType {
		case runtime.ContentTypeJSON:
			c.infos[kinds.JSON] = info
		case runtime.ContentTypeProtobuf:
			c.infos[kinds.Protobuf] = info
		case runtime.ContentTypeYAML:
			c.infos[kinds.YAML] = info
		}
	}
	return c
}

// representation is the response format that a client negotiated.
type representation struct {
	encoding kinds.Encoding
	as       string // "", Table, PartialObjectMetadata(List), APIGroupDiscoveryList
	in       schema.GroupVersion
	pretty   bool
}

// contentType returns the Content-Type header of a response; stream selects that of a
// watch.
func (r representation) contentType(c *codecs, stream bool) string {
	t := c.infos[r.encoding].MediaType
	if stream && r.encoding != kinds.JSON {
		t += ";stream=watch"
	}
	return t
}

// negotiate picks the first representation accepted by ok, in the client's order of
// preference.
func negotiate(req *http.Request, ok func(representation) bool) (representation, error) {
	header := strings.Join(req.Header.Values("Accept"), ",")
	if strings.TrimSpace(header) == "" {
		header = "*/*"
	}
	understood := false
	for _, clause := range goautoneg.ParseAccept(header) { // in the order of preference
		r := representation{as: clause.Params["as"], in: schema.GroupVersion{Group: clause.Params["g"], Version: clause.Params["v"]}}
		switch clause.Type + "/" + clause.SubType {
		case "application/json", "*/*", "application/*", "text/*", "text/html":
			r.encoding = kinds.JSON
		case "application/vnd.kubernetes.protobuf":
			r.encoding = kinds.Protobuf
		case "application/yaml":
			r.encoding = kinds.YAML
		default:
			continue
		}
		understood = true
		p := req.URL.Query().Get("pretty")
		if r.pretty = clause.Params["pretty"] == "1"; ok(r) {
			r.pretty = r.pretty || p == "true" || p == "1"
			return r, nil
		}
	}
	const known = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
	if !understood {
		err := apierror.NotAcceptable("406: Not Acceptable\n\nAvailable representations: " + known)
		err.ErrStatus.Details = &metav1.StatusDetails{}
		return representation{}, err
	}
	return representation{}, apierror.NotAcceptable("only the following media types are accepted: " + known)
}

// supports reports whether objects of the kind can be sent in the representation.
func supports(k *kinds.Kind, r representation) bool {
	switch r.as {
	case "":
		return k.Typed || r.encoding != kinds.Protobuf
	case "Table", "PartialObjectMetadata", "PartialObjectMetadataList":
		if r.as == "Table" && r.encoding == kinds.Protobuf {
			return false // table rows embed JSON
		}
		return r.in.Group == metav1.GroupName && (r.in.Version == "v1" || r.in.Version == "v1beta1")
	}
	return false
}

// encoder returns the serializer for a representation.
func (c *codecs) encoder(r representation) runtime.Encoder {
	if r.pretty && r.encoding == kinds.JSON {
		return c.infos[kinds.JSON].PrettySerializer
	}
	return c.infos[r.encoding].Serializer
}

func (c *codecs) encode(r representation, obj runtime.Object) ([]byte, error) {
	var buf bytes.Buffer
	if err := c.encoder(r).Encode(obj, &buf); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// record returns the encoded bytes of a stored object. They are computed once and shared by
// all readers.
func (c *codecs) record(k *kinds.Kind, f kinds.Encoding, r *kinds.Record) ([]byte, error) {
	if !k.Native(r) {
		return c.encode(representation{encoding: f}, k.Present(r))
	}
	if raw := r.Encoded[f].Load(); raw != nil {
		return *raw, nil
	}
	raw, err := c.encode(representation{encoding: f}, r.Obj)
	if err == nil {
		r.Encoded[f].Store(&raw)
	}
	return raw, err
}

// listOf returns the list object for a page. Items of typed lists carry no kind or
// apiVersion, as on the real server; unstructured items do.
func listOf(k *kinds.Kind, p storage.Page) (runtime.Object, error) {
	head := metav1.ListMeta{ResourceVersion: kinds.FormatVersion(p.Version), Continue: p.Next, RemainingItemCount: p.Remaining, ShardInfo: p.Shard}
	if !k.Typed {
		list := &unstructured.UnstructuredList{Items: make([]unstructured.Unstructured, len(p.Records))}
		list.SetGroupVersionKind(k.ListKind())
		list.SetResourceVersion(head.ResourceVersion)
		list.SetContinue(head.Continue)
		list.SetRemainingItemCount(head.RemainingItemCount)
		for i, r := range p.Records {
			list.Items[i] = *k.Present(r).(*unstructured.Unstructured)
		}
		return list, nil
	}
	obj, err := scheme.Scheme.New(k.ListKind())
	if err != nil {
		return nil, err
	}
	obj.GetObjectKind().SetGroupVersionKind(k.ListKind())
	v := reflect.ValueOf(obj).Elem()
	v.FieldByName("ListMeta").Set(reflect.ValueOf(head))
	items := v.FieldByName("Items")
	items.Set(reflect.MakeSlice(items.Type(), len(p.Records), len(p.Records)))
	for i, r := range p.Records {
		item := items.Index(i)
		item.Set(reflect.ValueOf(k.Present(r)).Elem())
		item.FieldByName("TypeMeta").SetZero()
	}
	return obj, nil
}

// read decodes a request body into the version that writes work on. Unknown fields are
// rejected, reported as warnings or ignored, depending on fieldValidation.
func (s *Server) read(w http.ResponseWriter, r *request) (runtime.Object, error) {
	if err := r.checkOptions(""); err != nil {
		return nil, err
	}
	if err := checkBody(r.Request); err != nil {
		return nil, err
	}
	raw, err := readBody(r.Request)
	if err != nil {
		return nil, err
	}
	obj, err := s.codecs.parse(r.kind, raw)
	if err != nil {
		return nil, err
	}
	if err := s.checkFields(w, r, raw); err != nil {
		gvk := r.kind.GVK()
		return nil, kinds.Undecodable(r.kind, &gvk, raw, err)
	}
	return obj, nil
}

// checkFields applies fieldValidation to unknown and duplicate fields. It returns a strict
// decoding error. errs are those of a patch that led to the object.
func (s *Server) checkFields(w http.ResponseWriter, r *request, raw []byte, errs ...error) error {
	level := r.URL.Query().Get("fieldValidation")
	if level == metav1.FieldValidationIgnore || !r.kind.Typed && r.kind.Schema == nil || bytes.HasPrefix(raw, []byte("k8s\x00")) {
		return nil
	}
	if !json.Valid(raw) {
		if _, err := yaml.YAMLToJSONStrict(raw); err != nil {
			errs = append(errs, err) // fields that occur twice
		}
	}
	raw, err := toJSON(raw)
	if err != nil {
		return nil // decoding succeeded before
	}
	if r.kind.Schema != nil {
		errs = append(errs, r.kind.StrictErrors(raw)...)
	} else {
		gvk := r.kind.GVK()
		_, _, err = s.codecs.infos[kinds.JSON].StrictSerializer.Decode(raw, &gvk, nil)
		if strict, ok := runtime.AsStrictDecodingError(err); ok {
			errs = append(errs, strict.Errors()...)
		}
	}
	if len(errs) > 0 && level == metav1.FieldValidationStrict {
		return runtime.NewStrictDecodingError(errs)
	}
	for _, each := range errs {
		addWarning(w, each.Error())
	}
	return nil
}

func readBody(req *http.Request) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(req.Body, maxBody+1))
	if err != nil {
		return nil, apierrors.NewBadRequest("the body could not be read: " + err.Error())
	}
	if len(raw) > maxBody {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
	}
	return raw, checkAliases(raw)
}

// parse decodes an object and checks its kind and apiVersion.
func (c *codecs) parse(k *kinds.Kind, raw []byte) (runtime.Object, error) {
	gvk := k.GVK()
	var obj runtime.Object
	var said *schema.GroupVersionKind
	err := error(nil)
	switch {
	case len(raw) == 0:
		err = errors.New("couldn't get version/kind; json parse error: unexpected end of JSON input")
	case k.Typed:
		obj, said, err = c.decode.Decode(raw, &gvk, nil)
	default:
		u := new(unstructured.Unstructured)
		if raw, err = toJSON(raw); err == nil {
			_, _, err = unstructured.UnstructuredJSONScheme.Decode(raw, &gvk, u)
		}
		obj = u
	}
	if err != nil {
		return nil, kinds.Undecodable(k, said, raw, err)
	}
	if got := obj.GetObjectKind().GroupVersionKind(); got.Kind != "" && got != gvk {
		if k.Typed {
			return nil, kinds.Undecodable(k, &got, raw, errors.New("unknown conversion"))
		}
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", got.GroupVersion(), gvk.GroupVersion()))
	}
	if k.Typed {
		obj = k.ToStorage(obj)
	}
	if err := k.Admit(obj); err != nil {
		return nil, kinds.Undecodable(k, &gvk, raw, err)
	}
	return obj, nil
}
