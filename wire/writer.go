package wire

import (
	"context"
	"encoding/json"

	"github.com/tarnproject/tarn/object"
)

// CheckAttempts is [WithAttemptCheck], as a method for callers that know an API by an
// interface only.
func (a *API[T]) CheckAttempts(ctx context.Context, check func() error) context.Context {
	return WithAttemptCheck(ctx, check)
}

// DeleteReturningUID is [API.Delete] that also returns the UID of the object it deleted or
// marked; "" if the answer does not have it.
func (a *API[T]) DeleteReturningUID(ctx context.Context, key object.Key, opts DeleteOptions) (object.UID, error) {
	res, err := opts.request(a.request(VerbDelete, key)).Do(ctx)
	if err != nil {
		return "", err
	}
	// A Status, or the object.
	type holder struct {
		UID object.UID `json:"uid"`
	}
	var answer struct {
		Metadata holder `json:"metadata"`
		Details  holder `json:"details"`
	}
	if json.Unmarshal(res.Raw(), &answer) != nil {
		return "", nil // it was accepted all the same
	}
	if answer.Details.UID != "" {
		return answer.Details.UID, nil
	}
	return answer.Metadata.UID, nil
}
