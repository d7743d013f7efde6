package wire

import (
	"context"
	"encoding/json"

	"github.com/tarnproject/tarn/object"
)

// CheckAttempts is [WithAttemptCheck] as a method, for callers that use an API through an
// interface.
func (a *API[T]) CheckAttempts(ctx context.Context, check func() error) context.Context {
	return WithAttemptCheck(ctx, check)
}

// DeleteReturningUID is [API.Delete] that also returns the UID of the deleted object, or "" if the
// response does not have it.
func (a *API[T]) DeleteReturningUID(ctx context.Context, key object.Key, opts DeleteOptions) (object.UID, error) {
	res, err := opts.request(a.request(VerbDelete, key)).Do(ctx)
	if err != nil {
		return "", err
	}
	// The response is a Status or the object.
	type holder struct {
		UID object.UID `json:"uid"`
	}
	var response struct {
		Metadata holder `json:"metadata"`
		Details  holder `json:"details"`
	}
	if json.Unmarshal(res.Raw(), &response) != nil {
		return "", nil // the delete was accepted
	}
	if response.Details.UID != "" {
		return response.Details.UID, nil
	}
	return response.Metadata.UID, nil
}
