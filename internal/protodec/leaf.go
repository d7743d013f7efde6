package protodec

import (
	"reflect"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarnproject/tarn/internal/intern"
)

// leaf decodes a message whose Go type does not describe its fields.
func (s *state) leaf(m *message, p unsafe.Pointer, b []byte) error {
	switch m.form {
	case timestamp:
		seconds, _, err := clock(b)
		if err != nil {
			return err
		}
		t := (*metav1.Time)(p)
		if t.Time = (time.Time{}); len(b) > 0 {
			t.Time = time.Unix(seconds, 0).Local()
		}
		return nil
	case microtime:
		seconds, nanos, err := clock(b)
		if err != nil {
			return err
		}
		t := (*metav1.MicroTime)(p)
		if t.Time = (time.Time{}); len(b) > 0 {
			t.Time = time.Unix(seconds, int64(nanos)/1000*1000).Local()
		}
		return nil
	case quantity:
		return s.quantity((*resource.Quantity)(p), b, m.site)
	default:
		s.volatile = s.volatile || m.reaches
		s.cost += len(b)
		return reflect.NewAt(m.typ, p).Interface().(interface{ Unmarshal([]byte) error }).Unmarshal(b)
	}
}

// clock reads a timestamp message: seconds are field 1, nanoseconds field 2.
func clock(b []byte) (seconds int64, nanos int32, err error) {
	for i := 0; i < len(b); {
		at := i
		var wire, v uint64
		if wire, i = varint(b, i); i < 0 {
			return 0, 0, errTruncated
		}
		number := int32(wire >> 3)
		switch {
		case number <= 0 || wire&7 == wireEnd:
			return 0, 0, errTag
		case number > 2:
			if i = skip(b, at); i < 0 {
				return 0, 0, errTruncated
			}
			continue
		case wire&7 != wireVarint:
			return 0, 0, errWireType
		}
		if v, i = varint(b, i); i < 0 {
			return 0, 0, errTruncated
		}
		if number == 1 {
			seconds = int64(v)
		} else {
			nanos = int32(v)
		}
	}
	return seconds, nanos, nil
}

// quantity reads a quantity message, whose text is field 1, with the strings of the
// given site.
func (s *state) quantity(q *resource.Quantity, b []byte, site int32) error {
	for i := 0; i < len(b); {
		number, value, next, err := nextField(b, i, 1<<1)
		if err != nil {
			return err
		}
		i = next
		if number == 0 {
			continue
		}
		if *q, err = resource.ParseQuantity(s.owned(site, value)); err != nil {
			return err
		}
		s.volatile = s.volatile || intern.HasDecimal(q)
	}
	return nil
}
