package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/tarnproject/tarn/apiserver/internal/codec"
	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

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
	obj, err := s.codecs.Parse(r.kind, raw)
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
	raw, err := codec.ToJSON(raw)
	if err != nil {
		return nil // decoding succeeded before
	}
	if r.kind.Schema != nil {
		errs = append(errs, r.kind.StrictErrors(raw)...)
	} else {
		gvk := r.kind.GVK()
		_, _, err = s.codecs.Infos[kinds.JSON].StrictSerializer.Decode(raw, &gvk, nil)
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
