package admission

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/tarnproject/tarn/apiserver/internal/kinds"
	"github.com/tarnproject/tarn/apiserver/internal/request"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	"k8s.io/apiserver/pkg/util/responsewriter"
)

// The messages here are those of kube-apiserver.

// call calls a webhook. It returns nil if the call failed and the failure is ignored, and an
// API error if the webhook denied the request.
func (a *Admission) call(h *webhook, k *kinds.Kind, old *kinds.Record, obj runtime.Object) (*admissionv1.AdmissionResponse, error) {
	request, err := a.request(k, old, obj)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if *request.DryRun && (h.SideEffects == nil || *h.SideEffects != admissionregistrationv1.SideEffectClassNone && *h.SideEffects != admissionregistrationv1.SideEffectClassNoneOnDryRun) {
		return nil, webhookerrors.NewDryRunUnsupportedErr(h.Name)
	}
	defer a.hooks.Calling(a.Request.Request)()
	response, err := h.call(a.Request.Context(), request)
	if err != nil {
		if end := a.Request.Context().Err(); end != nil {
			return nil, end
		}
		if h.FailurePolicy != nil && *h.FailurePolicy == admissionregistrationv1.Ignore {
			a.hooks.Logger.Debug("webhook failed and is ignored", "webhook", h.Name, "error", err)
			return nil, nil
		}
		return nil, apierrors.NewInternalError(fmt.Errorf("failed calling webhook %q: %w", h.Name, err))
	}
	a.hooks.warn(a.w, response.Warnings)
	if !response.Allowed {
		return nil, webhookerrors.ToStatusErr(h.Name, response.Result)
	}
	return response, nil
}

// warn adds the warnings of a webhook. Validating webhooks run at the same time.
func (h *Webhooks) warn(w http.ResponseWriter, texts []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, text := range texts {
		request.AddWarning(w, text)
	}
}

// call sends an AdmissionReview and returns the response.
func (h *webhook) call(ctx context.Context, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	if h.invalid != nil {
		return nil, fmt.Errorf("could not get REST client: %w", h.invalid)
	}
	timeout := 10 * time.Second
	if h.TimeoutSeconds != nil {
		timeout = time.Duration(*h.TimeoutSeconds) * time.Second
	}
	gvk := admissionv1.SchemeGroupVersion.WithKind("AdmissionReview")
	review := admissionv1.AdmissionReview{Request: request}
	review.SetGroupVersionKind(gvk)
	body, err := json.Marshal(review)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	raw, err := h.client.Post().SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body).Timeout(timeout).Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("failed to call webhook: %w", err)
	}
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, fmt.Errorf("failed to call webhook: %w", err)
	}
	if err := h.verify(request.UID, &answer); err != nil {
		return nil, fmt.Errorf("received invalid webhook response: %w", err)
	}
	if patch := answer.Response.Patch; len(patch) > 0 {
		if _, err := jsonpatch.DecodePatch(patch); err != nil {
			return nil, fmt.Errorf("received undecodable patch in webhook response: %w", err)
		}
	}
	return answer.Response, nil
}

// verify checks the response of a webhook.
func (h *webhook) verify(uid types.UID, answer *admissionv1.AdmissionReview) error {
	response, gvk := answer.Response, admissionv1.SchemeGroupVersion.WithKind("AdmissionReview")
	switch {
	case response == nil:
		return errors.New("webhook response was absent")
	case response.UID != uid:
		return fmt.Errorf("expected response.uid=%q, got %q", uid, response.UID)
	case answer.GroupVersionKind() != gvk:
		return fmt.Errorf("expected webhook response of %v, got %v", gvk, answer.GroupVersionKind())
	case h.validating && len(response.Patch) > 0:
		return errors.New("validating webhook may not return response.patch")
	case h.validating && response.PatchType != nil:
		return errors.New("validating webhook may not return response.patchType")
	case len(response.Patch) > 0 && response.PatchType == nil:
		return errors.New("webhook returned response.patch but not response.patchType")
	case len(response.Patch) == 0 && response.PatchType != nil:
		return errors.New("webhook returned response.patchType but not response.patch")
	case response.PatchType != nil && *response.PatchType != admissionv1.PatchTypeJSONPatch:
		return fmt.Errorf("unsupported patch type %q", *response.PatchType)
	}
	return nil
}

// serviceTransport calls the handler of a service in this process.
type serviceTransport struct {
	webhooks           *Webhooks
	namespace, service string
}

// RoundTrip implements [http.RoundTripper]. A handler that panics fails the call.
func (t serviceTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	handler, err := t.webhooks.handler(t.namespace, t.service)
	if err != nil {
		return nil, err
	}
	w := responsewriter.NewInMemoryResponseWriter()
	served := req.Clone(req.Context())
	served.RequestURI = req.URL.RequestURI()
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("webhook handler panicked: %v", p)
			}
		}()
		handler.ServeHTTP(w, served)
		done <- nil
	}()
	select {
	case err = <-done:
	case <-req.Context().Done():
		err = req.Context().Err()
	}
	if err != nil {
		return nil, err
	}
	code := cmp.Or(w.RespCode(), http.StatusOK)
	return &http.Response{
		Status: fmt.Sprint(code, " ", http.StatusText(code)), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.Header(), Body: io.NopCloser(bytes.NewReader(w.Data())), ContentLength: int64(len(w.Data())), Request: req,
	}, nil
}
