package sim

import (
	"github.com/tarnproject/tarn/object"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// matcher decides what belongs to a selection.
type matcher struct {
	namespace string
	labels    labels.Selector
	fields    fields.Selector
	shard     object.Shard
	err       error
}

func newMatcher(sel object.Selection) matcher {
	m := matcher{namespace: sel.Namespace, labels: labels.Everything(), fields: fields.Everything(), shard: sel.Shard}
	if sel.Labels != "" {
		if m.labels, m.err = labels.Parse(sel.Labels); m.err != nil {
			return m
		}
	}
	if sel.Fields != "" {
		m.fields, m.err = fields.ParseSelector(sel.Fields)
	}
	return m
}

// matcher returns what a request for a selection gets: the server may ignore the shard.
func (s *Server) matcher(sel object.Selection) matcher {
	if !s.quirks.Shards {
		sel.Shard = object.Shard{}
	}
	return newMatcher(sel)
}

// matches reports whether an object, which may be nil, belongs to the selection.
func (m matcher) matches(t *Thing) bool {
	return t != nil && m.err == nil &&
		(m.namespace == "" || m.namespace == t.Namespace) &&
		m.labels.Matches(labels.Set(t.Labels)) && m.shard.Contains(t.UID, t.Namespace) &&
		(m.fields.Empty() || m.fields.Matches(fields.Set{"metadata.name": t.Name, "metadata.namespace": t.Namespace}))
}
