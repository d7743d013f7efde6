package clientgo

import (
	"reflect"
	"runtime"
	"testing"
	"weak"
)

func TestAValueIsOfOneType(t *testing.T) {
	one, two := new(int), new(int)
	for _, c := range []struct{ first, same, other any }{
		{one, two, "text"},
		{"text", "another", 7},
		{nil, nil, one},
		{struct{}{}, struct{}{}, nil},
		{[3]int{1, 2, 3}, [3]int{4, 5, 6}, []int{1}},
		{int64(1), int64(1 << 40), int32(1)},
		{(*int)(nil), one, nil},
	} {
		var v value
		v.init(c.first)
		if got := v.load(); !reflect.DeepEqual(got, c.first) {
			t.Errorf("%#v came back as %#v", c.first, got)
		}
		if v.store(c.other) || !reflect.DeepEqual(v.load(), c.first) {
			t.Errorf("%#v has become %#v by way of %#v", c.first, v.load(), c.other)
		}
		if !v.store(c.same) || !reflect.DeepEqual(v.load(), c.same) {
			t.Errorf("%#v has become %#v; want %#v", c.first, v.load(), c.same)
		}
	}
}

func TestAValueIsKeptAliveUntilItIsCleared(t *testing.T) {
	var v value
	obj := &[64]byte{1}
	held := weak.Make(obj)
	v.init(obj)
	obj = nil
	runtime.GC()
	if v.load().(*[64]byte)[0] != 1 || held.Value() == nil {
		t.Fatal("it was collected")
	}
	v.clear()
	for range 10 {
		if runtime.GC(); held.Value() == nil {
			return
		}
	}
	t.Error("it is still there")
}
