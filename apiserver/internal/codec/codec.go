package codec

import (
	"bytes"
	"errors"
	"fmt"
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
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Codecs encodes and decodes with apimachinery's serializers and not with Tarn's own, so
// that a bug in Tarn's cannot cancel itself out in tests. It is stateless.
type Codecs struct {
	Infos  [kinds.Encodings]runtime.SerializerInfo
	Decode runtime.Decoder
}

// New returns the codecs of all kinds.
func New() *Codecs {
	factory := serializer.NewCodecFactory(kinds.Scheme, serializer.WithStreamingCollectionEncodingToJSON(), serializer.WithStreamingCollectionEncodingToProtobuf())
	c := &Codecs{Decode: factory.UniversalDeserializer()}
	for _, info := range factory.SupportedMediaTypes() {
		switch info.MediaType {
		case runtime.ContentTypeJSON:
			c.Infos[kinds.JSON] = info
		case runtime.ContentTypeProtobuf:
			c.Infos[kinds.Protobuf] = info
		case runtime.ContentTypeYAML:
			c.Infos[kinds.YAML] = info
		}
	}
	return c
}

// Representation is the response format that a client negotiated.
type Representation struct {
	Encoding kinds.Encoding
	As       string // "", Table, PartialObjectMetadata(List), APIGroupDiscoveryList
	In       schema.GroupVersion
	Pretty   bool
}

// ContentType returns the Content-Type header of a response; stream selects that of a
// watch.
func (r Representation) ContentType(c *Codecs, stream bool) string {
	t := c.Infos[r.Encoding].MediaType
	if stream && r.Encoding != kinds.JSON {
		t += ";stream=watch"
	}
	return t
}

// Negotiate picks the first representation accepted by ok, in the client's order of
// preference.
func Negotiate(req *http.Request, ok func(Representation) bool) (Representation, error) {
	header := strings.Join(req.Header.Values("Accept"), ",")
	if strings.TrimSpace(header) == "" {
		header = "*/*"
	}
	understood := false
	for _, clause := range goautoneg.ParseAccept(header) { // in the order of preference
		r := Representation{As: clause.Params["as"], In: schema.GroupVersion{Group: clause.Params["g"], Version: clause.Params["v"]}}
		switch clause.Type + "/" + clause.SubType {
		case "application/json", "*/*", "application/*", "text/*", "text/html":
			r.Encoding = kinds.JSON
		case "application/vnd.kubernetes.protobuf":
			r.Encoding = kinds.Protobuf
		case "application/yaml":
			r.Encoding = kinds.YAML
		default:
			continue
		}
		understood = true
		p := req.URL.Query().Get("pretty")
		if r.Pretty = clause.Params["pretty"] == "1"; ok(r) {
			r.Pretty = r.Pretty || p == "true" || p == "1"
			return r, nil
		}
	}
	const known = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
	if !understood {
		err := apierror.NotAcceptable("406: Not Acceptable\n\nAvailable representations: " + known)
		err.ErrStatus.Details = &metav1.StatusDetails{}
		return Representation{}, err
	}
	return Representation{}, apierror.NotAcceptable("only the following media types are accepted: " + known)
}

// Supports reports whether objects of the kind can be sent in the representation.
func Supports(k *kinds.Kind, r Representation) bool {
	switch r.As {
	case "":
		return k.Typed || r.Encoding != kinds.Protobuf
	case "Table", "PartialObjectMetadata", "PartialObjectMetadataList":
		if r.As == "Table" && r.Encoding == kinds.Protobuf {
			return false // table rows embed JSON
		}
		return r.In.Group == metav1.GroupName && (r.In.Version == "v1" || r.In.Version == "v1beta1")
	}
	return false
}

// Encoder returns the serializer for a representation.
func (c *Codecs) Encoder(r Representation) runtime.Encoder {
	if r.Pretty && r.Encoding == kinds.JSON {
		return c.Infos[kinds.JSON].PrettySerializer
	}
	return c.Infos[r.Encoding].Serializer
}

// Encode returns an object in a representation.
func (c *Codecs) Encode(r Representation, obj runtime.Object) ([]byte, error) {
	var buf bytes.Buffer
	if err := c.Encoder(r).Encode(obj, &buf); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// Record returns the encoded bytes of a stored object. They are computed once and shared by
// all readers.
func (c *Codecs) Record(k *kinds.Kind, f kinds.Encoding, r *kinds.Record) ([]byte, error) {
	if !k.Native(r) {
		return c.Encode(Representation{Encoding: f}, k.Present(r))
	}
	if raw := r.Encoded[f].Load(); raw != nil {
		return *raw, nil
	}
	raw, err := c.Encode(Representation{Encoding: f}, r.Obj)
	if err == nil {
		r.Encoded[f].Store(&raw)
	}
	return raw, err
}

// ListOf returns the list object for a page. Items of typed lists carry no kind or
// apiVersion, as on the real server; unstructured items do.
func ListOf(k *kinds.Kind, p storage.Page) (runtime.Object, error) {
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
	obj, err := kinds.Scheme.New(k.ListKind())
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

// Parse decodes an object and checks its kind and apiVersion.
func (c *Codecs) Parse(k *kinds.Kind, raw []byte) (runtime.Object, error) {
	gvk := k.GVK()
	var obj runtime.Object
	var said *schema.GroupVersionKind
	err := error(nil)
	switch {
	case len(raw) == 0:
		err = errors.New("couldn't get version/kind; json parse error: unexpected end of JSON input")
	case k.Typed:
		obj, said, err = c.Decode.Decode(raw, &gvk, nil)
	default:
		u := new(unstructured.Unstructured)
		if raw, err = ToJSON(raw); err == nil {
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

// ToJSON converts YAML to JSON and leaves JSON unchanged.
func ToJSON(raw []byte) ([]byte, error) { return yaml.ToJSON(raw) }
