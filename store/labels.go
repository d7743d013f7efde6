package store

import (
	"cmp"
	"iter"
	"runtime"
	"slices"

	"github.com/tarnproject/tarn/internal/mvcc"
	"github.com/tarnproject/tarn/object"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Label is one label of an object.
type Label struct{ Key, Value string }

// LabelIndex finds objects by label selectors. It is an [Index] of single labels and can be
// queried as one.
type LabelIndex[T any] struct {
	*Index[T, Label]
	labels func(T) map[string]string
}

// NewLabelIndex makes a label index. The function returns an object's labels, which are
// only read. If it is nil, they are those of the metadata, and T must be a metav1.Object.
func NewLabelIndex[T any](of func(T) map[string]string) *LabelIndex[T] {
	var fields []object.FieldPath
	if of == nil {
		of = func(obj T) map[string]string { return any(obj).(metav1.Object).GetLabels() }
		fields = []object.FieldPath{{"metadata", "labels"}}
	}
	index := NewMultiIndex("labels", func(obj T, add func(Label)) error {
		for k, v := range of(obj) {
			add(Label{k, v})
		}
		return nil
	})
	index.OrderedBy(func(a, b Label) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value))
	})
	index.fields = fields
	return &LabelIndex[T]{Index: index, labels: of}
}

// Select yields the objects that the selector matches.
//
// It starts from the requirement that fewest objects meet, intersects them with the sets
// of the others, and reads labels only for what the sets cannot decide. The cost follows
// that smallest number. A selector of nothing but negative requirements has to look at
// everything.
func (x *LabelIndex[T]) Select(n Snapshot[T], selector labels.Selector) iter.Seq[T] {
	return x.SelectIn(n, "", selector)
}

// SelectIn is Select in one namespace; an empty namespace means all of them.
func (x *LabelIndex[T]) SelectIn(n Snapshot[T], namespace string, selector labels.Selector) iter.Seq[T] {
	return func(yield func(T) bool) {
		if n.store == nil || selector == nil {
			return
		}
		x.selected(n, namespace, selector, yield)
	}
}

func (x *LabelIndex[T]) selected(n Snapshot[T], namespace string, selector labels.Selector, yield func(T) bool) {
	all := n.walk
	if namespace != "" {
		all = n.Namespace(namespace)
	}
	requirements, selectable := selector.Requirements()
	if !selectable {
		return
	}
	if len(requirements) == 0 {
		all(yield)
		return
	}
	p := x.in(n)
	var q query
	if p != nil {
		q = plan(p, requirements)
	}
	if q.from == nil {
		all(func(obj T) bool { return !x.matches(requirements, obj) || yield(obj) })
		return
	}
	var groups []bitset
	for _, g := range q.groups {
		groups = append(groups, x.collect(p, n, g))
	}
	for _, l := range q.from {
		more := p.ids(n, l, func(id uint32) bool {
			if namespace != "" && n.store.objects.Key(id).Namespace != namespace {
				return true
			}
			for _, g := range groups {
				if !g.has(id) {
					return true
				}
			}
			obj := n.load(n.store.objects.At(id, n.state.Revision))
			return !x.matches(q.rest, obj) || yield(obj)
		})
		if !more {
			break
		}
	}
	runtime.KeepAlive(n.lease)
}

// collect returns the ids that have one of the labels in the snapshot.
func (x *LabelIndex[T]) collect(p *postings[T, Label], n Snapshot[T], of []Label) bitset {
	var ids bitset
	for _, l := range of {
		p.Find(l).Visit(p.sees(n, l), func(id uint32) bool {
			ids.add(id)
			return true
		})
	}
	runtime.KeepAlive(n.lease)
	return ids
}

// matches reports whether an object meets all requirements. One on which the label function
// panics does not.
func (x *LabelIndex[T]) matches(requirements []labels.Requirement, obj T) (all bool) {
	if len(requirements) == 0 {
		return true
	}
	defer func() {
		if recover() != nil {
			all = false
		}
	}()
	of := labels.Set(x.labels(obj))
	for i := range requirements {
		if !requirements[i].Matches(of) {
			return false
		}
	}
	return true
}

// query is how a selector is answered: by the objects that have one of some labels, of which
// an object cannot have two because they are of one key, that also have one label of every
// group, and that meet the rest.
type query struct {
	from   []Label // nil when no requirement names its objects
	size   int     // how many objects these are, about
	groups [][]Label
	rest   []labels.Requirement
}

// plan chooses the requirement to start from. The others are met by looking at the sets of
// the labels they name, where these are not much larger, and else by looking at the
// objects.
func plan[T any](p *postings[T, Label], requirements []labels.Requirement) query {
	const cheaper = 32 // adding an id to a set, against matching an object's labels
	type named struct {
		query
		requirement labels.Requirement
		exact       bool
	}
	var all []named
	best := -1
	var q query
	for _, r := range requirements {
		of, size, exact := namedBy(p, r)
		if of == nil {
			q.rest = append(q.rest, r)
			continue
		}
		all = append(all, named{query{from: of, size: size}, r, exact})
		if best < 0 || size < all[best].size {
			best = len(all) - 1
		}
	}
	if best < 0 {
		return q
	}
	q.from, q.size = all[best].from, all[best].size
	for i, a := range all {
		switch {
		case i == best && a.exact:
		case i != best && a.exact && a.size <= q.size*cheaper:
			q.groups = append(q.groups, a.from)
		default:
			q.rest = append(q.rest, a.requirement)
		}
	}
	return q
}

// namedBy returns the labels that a requirement names, about how many objects have them,
// and whether having one is all that it asks. It returns nil for a requirement that names
// none.
func namedBy[T any](p *postings[T, Label], r labels.Requirement) (of []Label, size int, exact bool) {
	of = []Label{}
	switch r.Operator() {
	case selection.Equals, selection.DoubleEquals, selection.In:
		for _, value := range r.ValuesUnsorted() {
			if l := (Label{r.Key(), value}); !slices.Contains(of, l) {
				of, size = append(of, l), size+p.Find(l).Count()
			}
		}
		return of, size, true
	case selection.Exists, selection.GreaterThan, selection.LessThan:
		p.Values(&Label{Key: r.Key()}, func(l Label, m *mvcc.Members[Label]) bool {
			if l.Key != r.Key() {
				return false
			}
			of, size = append(of, l), size+m.Count()
			return true
		})
		return of, size, r.Operator() == selection.Exists
	}
	return nil, 0, false
}
