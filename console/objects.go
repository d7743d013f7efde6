package console

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tarnproject/tarn/object"
)

const (
	// pageSize is the default and maxPage the largest number of objects in a response.
	pageSize, maxPage = 100, 1000
	// maxScan is how many objects a request reads to find those that match a label selector.
	maxScan = 5000
)

// objectPage is the body of /objects.
type objectPage struct {
	Items    []objectRow `json:"items"`
	Continue string      `json:"continue,omitempty"`
	Total    int         `json:"total"`
	Revision uint64      `json:"revision"`
}

// objectRow is an object in a list.
type objectRow struct {
	Key       string            `json:"key"`
	Namespace string            `json:"namespace,omitempty"`
	Name      string            `json:"name"`
	UID       string            `json:"uid"`
	Version   string            `json:"version"`
	Created   string            `json:"created,omitempty"`
	Deleted   string            `json:"deleted,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Owner     string            `json:"owner,omitempty"`
	Status    string            `json:"status,omitempty"`
}

// selection is what a request for objects selects.
type selection struct {
	namespace, search string
	index, value      string
	labels            labels.Selector
	limit             int
	after             object.Key
}

func parseSelection(q url.Values) (s selection, err error) {
	s = selection{namespace: q.Get("namespace"), search: q.Get("search"), index: q.Get("index"), value: q.Get("value"), limit: pageSize}
	if s.labels, err = labels.Parse(q.Get("labels")); err != nil {
		return s, failf(http.StatusBadRequest, "labels is not a label selector such as app=web: %v", err)
	}
	if text := q.Get("limit"); text != "" {
		if s.limit, err = strconv.Atoi(text); err != nil || s.limit < 1 || s.limit > maxPage {
			return s, failf(http.StatusBadRequest, "limit is %q; want 1 to %d", text, maxPage)
		}
	}
	if text := q.Get("continue"); text != "" {
		s.after = object.RawKey(text)
	}
	return s, nil
}

// objects responds with a page of objects in the order of their keys. It visits every key, which
// takes a few milliseconds for 100,000, and reads as many objects as it returns, or up to maxScan
// with a label selector. If these are not enough to fill the page, the client continues after the
// last one.
func (h *handler) objects(r *http.Request) (any, error) {
	m, err := h.mirror(r)
	if err != nil {
		return nil, err
	}
	s, err := parseSelection(r.URL.Query())
	if err != nil {
		return nil, err
	}
	done, err := h.read(r)
	if err != nil {
		return nil, err
	}
	defer done()
	return s.page(m)
}

func (s *selection) page(m Mirror) (objectPage, error) {
	out := objectPage{Items: []objectRow{}, Revision: m.Revision()}
	keys, more, total, err := s.keys(m)
	if err != nil {
		return out, err
	}
	out.Total = total
	for i, key := range keys {
		obj, ok := m.Get(key)
		if ok && s.labels.Matches(labels.Set(obj.GetLabels())) {
			content, _, err := shown(m, obj)
			if err != nil {
				return out, err
			}
			// Labels can be masked, too. A selector must not reveal them.
			if u := (&unstructured.Unstructured{Object: content}); s.labels.Matches(labels.Set(u.GetLabels())) {
				out.Items = append(out.Items, row(key, u))
			}
		}
		if len(out.Items) == s.limit || i == len(keys)-1 {
			if more || i < len(keys)-1 {
				out.Continue = key.String()
			}
			break
		}
	}
	return out, nil
}

// keys returns the next keys to read in order, whether there are more, and how many keys match
// except for labels.
func (s *selection) keys(m Mirror) (next []object.Key, more bool, total int, err error) {
	most := s.limit
	if !s.labels.Empty() {
		most = maxScan
	}
	var low lowest
	low.most = most
	add := func(key object.Key) bool {
		if s.matches(key) {
			total++
			if key.Compare(s.after) > 0 {
				low.add(key)
			}
		}
		return true
	}
	if s.index == "" {
		m.Keys(add)
	} else {
		found, ok := m.Find(s.index, s.value)
		if !ok {
			return nil, false, 0, failf(http.StatusNotFound, "the mirror %q has no index %q", m.Name(), s.index)
		}
		for _, text := range found {
			add(object.RawKey(text))
		}
	}
	next, more = low.take()
	return next, more, total, nil
}

func (s *selection) matches(key object.Key) bool {
	if s.namespace != "" && key.Namespace != s.namespace {
		return false
	}
	return s.search == "" || strings.Contains(key.Name, s.search) || strings.Contains(key.Namespace, s.search) ||
		strings.Contains(s.search, "/") && strings.Contains(key.String(), s.search)
}

// lowest collects the lowest of some keys, without keeping all of them.
type lowest struct {
	most int
	keys []object.Key // at most 2*most
	more bool         // some were dropped
}

func (l *lowest) add(key object.Key) {
	if l.more && key.Compare(l.keys[l.most-1]) > 0 {
		return
	}
	if l.keys = append(l.keys, key); len(l.keys) == 2*l.most {
		l.trim()
	}
}

func (l *lowest) trim() {
	slices.SortFunc(l.keys, object.Key.Compare)
	if len(l.keys) > l.most {
		l.keys, l.more = l.keys[:l.most], true
	}
}

func (l *lowest) take() (keys []object.Key, more bool) {
	l.trim()
	return l.keys, l.more
}

func row(key object.Key, obj *unstructured.Unstructured) objectRow {
	out := objectRow{
		Key: key.String(), Namespace: key.Namespace, Name: key.Name, UID: string(obj.GetUID()), Version: obj.GetResourceVersion(),
		Created: stamp(obj.GetCreationTimestamp().Time), Labels: obj.GetLabels(), Status: statusWord(obj),
	}
	if t := obj.GetDeletionTimestamp(); t != nil {
		out.Deleted = stamp(t.Time)
	}
	if owner := metav1.GetControllerOfNoCopy(obj); owner != nil {
		out.Owner = owner.Kind + "/" + owner.Name
	}
	return out
}
