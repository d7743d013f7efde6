package request

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/tarnproject/tarn/apiserver/internal/apierror"
	"github.com/tarnproject/tarn/apiserver/internal/codec"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
	goyaml "sigs.k8s.io/yaml/goyaml.v2"
)

// Read decodes a request body into the version that writes work on. Unknown fields are
// rejected, reported as warnings or ignored, depending on fieldValidation.
func (r *Request) Read(w http.ResponseWriter, codecs *codec.Codecs) (runtime.Object, error) {
	if err := r.CheckOptions(""); err != nil {
		return nil, err
	}
	if err := checkBody(r.Request); err != nil {
		return nil, err
	}
	raw, err := ReadBody(r.Request)
	if err != nil {
		return nil, err
	}
	obj, err := codecs.Parse(r.Kind, raw)
	if err != nil {
		return nil, err
	}
	if err := r.CheckFields(w, codecs, raw); err != nil {
		gvk := r.Kind.GVK()
		return nil, kinds.Undecodable(r.Kind, &gvk, raw, err)
	}
	return obj, nil
}

// CheckFields applies fieldValidation to unknown and duplicate fields. It returns a strict
// decoding error. errs are those of a patch that led to the object.
func (r *Request) CheckFields(w http.ResponseWriter, codecs *codec.Codecs, raw []byte, errs ...error) error {
	level := r.URL.Query().Get("fieldValidation")
	if level == metav1.FieldValidationIgnore || !r.Kind.Typed && r.Kind.Schema == nil || bytes.HasPrefix(raw, []byte("k8s\x00")) {
		return nil
	}
	if !json.Valid(raw) {
		if _, err := yaml.YAMLToJSONStrict(raw); err != nil {
			errs = append(errs, err) // fields that occur twice
		}
	}
	raw, err := codec.ToJSON(raw)
	if err != nil {
		return nil // decoding succeeded before
	}
	if r.Kind.Schema != nil {
		errs = append(errs, r.Kind.StrictErrors(raw)...)
	} else {
		gvk := r.Kind.GVK()
		_, _, err = codecs.Infos[kinds.JSON].StrictSerializer.Decode(raw, &gvk, nil)
		if strict, ok := runtime.AsStrictDecodingError(err); ok {
			errs = append(errs, strict.Errors()...)
		}
	}
	if len(errs) > 0 && level == metav1.FieldValidationStrict {
		return runtime.NewStrictDecodingError(errs)
	}
	for _, each := range errs {
		AddWarning(w, each.Error())
	}
	return nil
}

// ReadBody reads a request body up to the limit.
func ReadBody(req *http.Request) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(req.Body, maxBody+1))
	if err != nil {
		return nil, apierrors.NewBadRequest("the body could not be read: " + err.Error())
	}
	if len(raw) > maxBody {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
	}
	return raw, checkAliases(raw)
}

// checkBody rejects unsupported content types.
func checkBody(req *http.Request) error {
	header := req.Header.Get("Content-Type")
	if header == "" {
		return nil
	}
	switch media, _, _ := mime.ParseMediaType(header); media {
	case "application/json", "application/yaml", "application/vnd.kubernetes.protobuf":
		return nil
	}
	return apierror.NotSupported("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
}

// maxBody limits the bytes of a request body, and what its YAML aliases may expand to, as on the real server.
const maxBody = 3 << 20

// checkAliases rejects YAML whose aliases expand beyond maxBody.
func checkAliases(raw []byte) error {
	if !bytes.Contains(raw, []byte("*")) || bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) || bytes.HasPrefix(raw, []byte("k8s\x00")) {
		return nil
	}
	var tree any
	if goyaml.Unmarshal(raw, &tree) != nil {
		return nil // left to the decoder, which returns the better error
	}
	if kinds.JSONSize(tree, maxBody) > maxBody {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d with its aliases", maxBody))
	}
	return nil
}
