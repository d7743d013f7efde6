package jsondec

import (
	"bytes"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"github.com/tarnproject/tarn/internal/intern"
)

// reference decodes as apimachinery does.
func reference(t reflect.Type, raw []byte) (any, error) {
	if t == reflect.TypeFor[*unstructured.Unstructured]() {
		u := &unstructured.Unstructured{}
		_, _, err := unstructured.UnstructuredJSONScheme.Decode(raw, nil, u)
		return u, err
	}
	v := reflect.New(t.Elem()).Interface()
	return v, kjson.UnmarshalCaseSensitivePreserveInts(raw, v)
}

// trial decodes one document by several machines that must all agree with the
// reference.
type trial struct {
	t        reflect.Type
	machines []*machine
	fast     int // documents that did not need the slow path
	accepted int
}

// newTrial prepares machines with and without tables. The tables are small, so that
// they are full soon.
func newTrial(tb testing.TB, t reflect.Type) *trial {
	tr := &trial{t: t}
	for _, opts := range []Options{
		{},
		{Strings: intern.NewStrings(64), Share: intern.NewParts(64 << 10)},
	} {
		m, err := newMachine(t, opts)
		if err != nil {
			tb.Fatal(err)
		}
		tr.machines = append(tr.machines, m)
	}
	return tr
}

func trialFor[T any](tb testing.TB) *trial { return newTrial(tb, reflect.TypeFor[T]()) }

// check decodes raw twice by each machine, so that the tables know it the second time,
// and overwrites what it was decoded from.
func (tr *trial) check(tb testing.TB, raw []byte) {
	tb.Helper()
	want, wantErr := reference(tr.t, raw)
	for i, m := range tr.machines {
		for round := range 3 {
			given := bytes.Clone(raw)
			p, err := m.decode(given)
			if !bytes.Equal(given, raw) {
				tb.Fatalf("machine %d wrote to its input", i)
			}
			for j := range given {
				given[j] = 0xAA
			}
			if (err == nil) != (wantErr == nil) {
				tb.Fatalf("%v, machine %d, round %d:\n got error %v\nwant error %v\n%s", tr.t, i, round, err, wantErr, raw)
			}
			if err != nil {
				if !runtime.IsMissingKind(wantErr) && err.Error() != wantErr.Error() {
					tb.Fatalf("%v, machine %d:\n got error %v\nwant error %v\n%s", tr.t, i, err, wantErr, raw)
				}
				continue
			}
			got := reflect.NewAt(tr.t.Elem(), p).Interface()
			if !reflect.DeepEqual(got, want) {
				tb.Fatalf("%v, machine %d, round %d:\n got %#v\nwant %#v\n%s", tr.t, i, round, got, want, raw)
			}
			if short, ok := m.trim(raw, new([]byte)); ok {
				if got, err := reference(tr.t, short); err != nil || !reflect.DeepEqual(got, want) {
					tb.Fatalf("%v, trimmed to %s: error %v\n got %#v\nwant %#v\n%s", tr.t, short, err, got, want, raw)
				}
			}
			if i == 0 && round == 0 {
				tr.accepted++
				if m.decodesFast(raw) {
					tr.fast++
				}
			}
		}
	}
}

// decodesFast reports whether raw does not need the slow path, which would make a
// comparison one of the reference with itself.
func (m *machine) decodesFast(raw []byte) bool {
	s := m.states.Get().(*state)
	defer s.release()
	if !s.lex(raw) {
		return false
	}
	if m.root == nil {
		return s.unstructured() != nil
	}
	return m.root.decode(s, 0, reflect.New(m.elem).UnsafePointer())
}
