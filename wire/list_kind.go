package wire

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarnproject/tarn/object"
)

// kindCheck holds the kind that was asked for against the one that the server names
// (L12, W21).
type kindCheck struct {
	call Call // what was asked, for errors
	// secrets are what errors must not show.
	secrets *secrets
	want    kindText
	// also is accepted too: a server that cannot leave spec and status out answers a
	// request for metadata with whole objects.
	also kindText

	seen bool // a kind was named, and it was right
}

// kindText is an apiVersion and a kind.
type kindText struct{ apiVersion, kind string }

func (k kindText) String() string { return k.apiVersion + ", Kind=" + k.kind }

// right reports whether the kind is one of those that were asked for.
func (c *kindCheck) right(got kindBytes) bool {
	return got.equal(c.want.apiVersion, c.want.kind) ||
		c.also.kind != "" && got.equal(c.also.apiVersion, c.also.kind)
}

// names is right for the kind of a decoded object.
func (c *kindCheck) names(got schema.GroupVersionKind) bool {
	return got == schema.FromAPIVersionAndKind(c.want.apiVersion, c.want.kind) ||
		c.also.kind != "" && got == schema.FromAPIVersionAndKind(c.also.apiVersion, c.also.kind)
}

// saw takes note of the kind that the server names.
func (c *kindCheck) saw(got kindBytes) error {
	if !c.right(got) {
		return c.wrong(got.String())
	}
	c.seen = true
	return nil
}

// settled returns an error when the server has named no kind.
func (c *kindCheck) settled() error {
	if !c.seen {
		return c.wrong(kindBytes{}.String())
	}
	return nil
}

func (c *kindCheck) wrong(got string) error {
	return &object.WrongKindError{Want: c.want.String(), Got: c.secrets.redact(got)}
}

// status returns the error that a Status in the place of something else stands for.
func (c *kindCheck) status(st *metav1.Status) error {
	if st.Status == metav1.StatusSuccess {
		return c.wrong("v1, Kind=Status")
	}
	return statusInStream(c.call, st, c.secrets)
}

// statusInStream makes the error of a Status that came inside an answer of 200.
func statusInStream(call Call, st *metav1.Status, known *secrets) error {
	known.status(st)
	return &Error{
		Call: call, Code: int(st.Code), Attempts: 1, RetryAfter: retryAfter(nil, st),
		status: &apierrors.StatusError{ErrStatus: *st},
	}
}

// isStatus reports whether the server sent a Status.
func isStatus(got kindBytes) bool { return got.equal("v1", "Status") }
