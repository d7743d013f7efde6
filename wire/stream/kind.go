package stream

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarnproject/tarn/object"
	"github.com/tarnproject/tarn/wire"
)

// kindCheck compares the kind that the server sends with the requested one (L12, W21).
type kindCheck struct {
	client *wire.Client
	call   wire.Call
	want   kindText
	// also is accepted too: a server that cannot omit spec and status answers a request for
	// metadata with whole objects.
	also kindText

	seen bool // the server sent a kind, and it was right
}

// kindText is an apiVersion and a kind.
type kindText struct{ apiVersion, kind string }

func (k kindText) String() string { return k.apiVersion + ", Kind=" + k.kind }

// right reports whether the kind is a requested one.
func (c *kindCheck) right(got kindBytes) bool {
	return got.equal(c.want.apiVersion, c.want.kind) ||
		c.also.kind != "" && got.equal(c.also.apiVersion, c.also.kind)
}

// names is right for the kind of a decoded object.
func (c *kindCheck) names(got schema.GroupVersionKind) bool {
	return got == schema.FromAPIVersionAndKind(c.want.apiVersion, c.want.kind) ||
		c.also.kind != "" && got == schema.FromAPIVersionAndKind(c.also.apiVersion, c.also.kind)
}

// saw records the kind that the server sent, or returns an error if it is wrong.
func (c *kindCheck) saw(got kindBytes) error {
	if !c.right(got) {
		return c.wrong(got.String())
	}
	c.seen = true
	return nil
}

// settled returns an error if the server sent no kind.
func (c *kindCheck) settled() error {
	if !c.seen {
		return c.wrong(kindBytes{}.String())
	}
	return nil
}

func (c *kindCheck) wrong(got string) error {
	return &object.WrongKindError{Want: c.want.String(), Got: c.client.Redact(got)}
}

// status returns the error for a Status that the server sent instead of a list.
func (c *kindCheck) status(st *metav1.Status) error {
	if st.Status == metav1.StatusSuccess {
		return c.wrong("v1, Kind=Status")
	}
	return c.client.StatusError(c.call, st)
}

// isStatus reports whether the server sent a Status.
func isStatus(got kindBytes) bool { return got.equal("v1", "Status") }
