package stream

import (
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/internal/jsondec"
	"github.com/tarnproject/tarn/object"
)

// jsonList reads a list in JSON. Its members come in any order (L08): built-in kinds send kind
// and version first, custom resources last.
type jsonList struct {
	head *headReader
	scan *jsondec.Scanner
	kind kindCheck
	got  kindBytes // copies, because a part is valid until the next call
	// metadata is complete at the end of the list.
	metadata metav1.ListMeta
}

func newJSONList(body io.Reader, limit int, kind kindCheck) *jsonList {
	head := &headReader{r: body, keep: true}
	return &jsonList{head: head, scan: jsondec.NewScanner(head, limit), kind: kind}
}

func (l *jsonList) next() ([]byte, error) {
	for {
		part, err := l.scan.Next()
		if err == io.EOF {
			return nil, l.end()
		}
		if err != nil {
			return nil, err
		}
		switch part.Member {
		case jsondec.Item:
			l.head.keep = false
			return part.Raw, nil
		case jsondec.Items:
			if string(part.Raw) != "null" {
				return nil, corrupt("the items of a list are not an array")
			}
		case jsondec.Metadata:
			// It is small and comes once, so the standard decoder is fast enough.
			if err := readJSON(part.Raw, &l.metadata); err != nil {
				return nil, corrupt("list metadata: %w", err)
			}
		case jsondec.Kind, jsondec.APIVersion:
			if err := l.named(part); err != nil {
				return nil, err
			}
		}
	}
}

// named records kind or apiVersion and checks them once both are known.
func (l *jsonList) named(part jsondec.Part) error {
	text, ok := part.Text()
	if !ok {
		return corrupt("the %s of a list is not a string", part.Member)
	}
	if part.Member == jsondec.Kind {
		l.got.kind = []byte(text)
	} else {
		l.got.apiVersion = []byte(text)
	}
	if text == "Status" && part.Member == jsondec.Kind && l.head.keep {
		return l.status()
	}
	if l.got.kind == nil || l.got.apiVersion == nil {
		return nil
	}
	return l.kind.saw(l.got)
}

// status reads the whole body as a Status.
func (l *jsonList) status() error {
	body, err := l.head.all()
	if err != nil {
		return err
	}
	var st metav1.Status
	if err := readJSON(body, &st); err != nil {
		return corrupt("Status: %w", err)
	}
	if st.APIVersion != "v1" {
		return l.kind.wrong(kindBytes{[]byte(st.APIVersion), []byte(st.Kind)}.String())
	}
	return l.kind.status(&st)
}

// end returns io.EOF for a complete list, or what is missing in it.
func (l *jsonList) end() error {
	if err := l.kind.settled(); err != nil {
		if l.got.kind != nil || l.got.apiVersion != nil {
			return l.kind.wrong(l.got.String())
		}
		return err
	}
	// An empty list has an empty array. A body without one is not a list, and taking it for
	// an empty list would delete everything (L10).
	if !l.scan.HasItems() {
		return corrupt("a list without items")
	}
	return io.EOF
}

func (l *jsonList) release() {}

func (l *jsonList) peek(raw []byte) (identity, error) {
	id, err := jsondec.Peek(raw)
	return fromJSON(id), err
}

func (l *jsonList) kindKnown() bool { return l.kind.seen }

func (l *jsonList) meta() *metav1.ListMeta { return &l.metadata }

func pageOf(meta *metav1.ListMeta) object.Page {
	page := object.Page{Version: object.Version(meta.ResourceVersion), Continue: meta.Continue}
	if meta.RemainingItemCount != nil {
		page.Remaining = *meta.RemainingItemCount
	}
	return page
}

// headReader keeps the bytes it has read while keep is set, so that a body that turns out to be
// a Status can be decoded as one.
type headReader struct {
	r    io.Reader
	head []byte
	keep bool
}

// Read reads from the body.
func (h *headReader) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	if h.keep = h.keep && len(h.head)+n <= statusLimit; h.keep {
		h.head = append(h.head, p[:n]...)
	} else {
		h.head = nil
	}
	return n, err
}

// all returns the whole body, or an error if it exceeds statusLimit.
func (h *headReader) all() ([]byte, error) {
	rest, err := io.ReadAll(io.LimitReader(h.r, statusLimit))
	switch {
	case err == io.ErrUnexpectedEOF:
		return nil, truncated("a Status")
	case err != nil:
		return nil, err
	case len(h.head)+len(rest) > statusLimit:
		return nil, corrupt("a Status of more than %d bytes", statusLimit)
	}
	return append(h.head, rest...), nil
}
