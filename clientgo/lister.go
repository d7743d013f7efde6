package clientgo

import (
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/tools/cache"
)

// LabelIndex names the index by labels that [Lister], [ListAll] and [NewGenericLister] use
// where an indexer has it. It is one line to have it, before the informer has started or
// after:
//
//	informer.AddIndexers(cache.Indexers{clientgo.LabelIndex: clientgo.LabelIndexFunc})
//
// A selector with an equality then costs what matches instead of what there is. The price
// is paid by writes that change labels.
const LabelIndex = "labels"

// LabelIndexFunc is the function of [LabelIndex]: an object has a value for each label.
func LabelIndexFunc(obj any) ([]string, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	set := m.GetLabels()
	if len(set) == 0 {
		return nil, nil
	}
	values := make([]string, 0, len(set))
	for name, value := range set {
		values = append(values, labelValue(name, value))
	}
	slices.Sort(values)
	return values, nil
}

// labelValue is a label as a value of the index. Names have no equals sign.
func labelValue(name, value string) string { return name + "=" + value }

// ListAll is client-go's function of that name, which uses [LabelIndex] where the store is
// an indexer that has it.
func ListAll(store cache.Store, selector labels.Selector, appendFn cache.AppendFunc) error {
	if indexer, ok := store.(cache.Indexer); ok {
		return listSelected(indexer, "", selector, appendFn)
	}
	return cache.ListAll(store, selector, appendFn)
}

// ListAllByNamespace is client-go's function of that name, which uses [LabelIndex] where
// the indexer has it.
func ListAllByNamespace(indexer cache.Indexer, namespace string, selector labels.Selector, appendFn cache.AppendFunc) error {
	return listSelected(indexer, namespace, selector, appendFn)
}

func listSelected(indexer cache.Indexer, namespace string, selector labels.Selector, appendFn cache.AppendFunc) error {
	found, ok := candidates(indexer, selector)
	if !ok {
		return cache.ListAllByNamespace(indexer, namespace, selector, appendFn)
	}
	for _, obj := range found {
		m, err := meta.Accessor(obj)
		if err != nil {
			return err
		}
		if (namespace == "" || m.GetNamespace() == namespace) && selector.Matches(labels.Set(m.GetLabels())) {
			appendFn(obj)
		}
	}
	return nil
}

// candidates returns what has the first label that the selector names with its value, and
// whether there is such an index and such a label.
func candidates(indexer cache.Indexer, selector labels.Selector) ([]any, bool) {
	requirements, selectable := selector.Requirements()
	if !selectable {
		return nil, false
	}
	for _, r := range requirements {
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			if values := r.ValuesUnsorted(); len(values) == 1 {
				found, err := indexer.ByIndex(LabelIndex, labelValue(r.Key(), values[0]))
				return found, err == nil
			}
		}
	}
	return nil, false
}

// Lister lists the objects of an indexer with their own type. It is what client-go's
// generated listers have inside, listers.ResourceIndexer, with [LabelIndex] where there is
// one. Those generated listers read Tarn's indexers too.
type Lister[T runtime.Object] struct {
	indexer   cache.Indexer
	resource  schema.GroupResource
	namespace string
}

// NewLister makes the lister of an indexer, such as an informer's. The resource is for the
// error of [Lister.Get].
func NewLister[T runtime.Object](indexer cache.Indexer, resource schema.GroupResource) Lister[T] {
	return Lister[T]{indexer: indexer, resource: resource}
}

// Namespace returns the lister of one namespace.
func (l Lister[T]) Namespace(namespace string) Lister[T] {
	l.namespace = namespace
	return l
}

// List returns what the selector selects.
func (l Lister[T]) List(selector labels.Selector) (list []T, err error) {
	err = listSelected(l.indexer, l.namespace, selector, func(obj any) { list = append(list, obj.(T)) })
	return list, err
}

// Get returns an object by its name. The error is a NotFound of the API where there is none.
func (l Lister[T]) Get(name string) (obj T, err error) {
	key := name
	if l.namespace != "" {
		key = l.namespace + "/" + name
	}
	found, exists, err := l.indexer.GetByKey(key)
	if err != nil {
		return obj, err
	}
	if !exists {
		return obj, apierrors.NewNotFound(l.resource, name)
	}
	return found.(T), nil
}

// NewGenericLister is client-go's function of that name, which uses [LabelIndex] where the
// indexer has it.
func NewGenericLister(indexer cache.Indexer, resource schema.GroupResource) cache.GenericLister {
	return genericLister{NewLister[runtime.Object](indexer, resource)}
}

type genericLister struct{ Lister[runtime.Object] }

// ByNamespace implements cache.GenericLister.
func (l genericLister) ByNamespace(namespace string) cache.GenericNamespaceLister {
	return l.Namespace(namespace)
}
