package jsondec

import (
	"math"
	"reflect"
	"strings"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tarnproject/tarn/internal/intern"
)

// The types in this file have their own UnmarshalJSON. The codecs here do the same for
// their usual forms, without another JSON decoder, and call UnmarshalJSON for all others.

// wellKnown returns the codec of a type that has one here.
func wellKnown(t reflect.Type) codec {
	switch t {
	case reflect.TypeFor[metav1.Time]():
		return timeCodec{time.RFC3339}
	case reflect.TypeFor[metav1.MicroTime]():
		return timeCodec{metav1.RFC3339Micro}
	case reflect.TypeFor[resource.Quantity]():
		return quantityCodec{}
	case reflect.TypeFor[intstr.IntOrString]():
		return intOrStringCodec{}
	}
	return nil
}

// borrowed returns the text of a plain string without a copy, for callees that do not
// keep it. ok is false for anything else.
func (s *state) borrowed(t uint32) (text string, ok bool) {
	tok := &s.tokens[t]
	if s.raw[tok.start] != '"' || tok.n != plain || tok.end-tok.start < 3 {
		return "", false
	}
	// raw does not change while it is decoded.
	return unsafe.String(&s.raw[tok.start+1], tok.end-tok.start-2), true
}

// timeCodec is for metav1.Time and metav1.MicroTime, which differ in their layout as text.
type timeCodec struct{ layout string }

func (c timeCodec) decode(s *state, t uint32, p unsafe.Pointer) bool {
	text, ok := s.borrowed(t)
	if !ok {
		return s.null(t) // the slow path decides about all else
	}
	parsed, err := time.Parse(c.layout, text)
	*(*time.Time)(p) = parsed.Local() // the only field of both types
	return err == nil
}

type quantityCodec struct{}

func (quantityCodec) decode(s *state, t uint32, p unsafe.Pointer) bool {
	if s.first(t) == '"' && s.tokens[t].n == plain {
		// A quantity keeps its text, so it is not borrowed.
		q, err := resource.ParseQuantity(strings.TrimSpace(s.text(t)))
		*(*resource.Quantity)(p) = q
		if err != nil {
			return false
		}
	} else if (*resource.Quantity)(p).UnmarshalJSON(s.source(t)) != nil {
		return false
	}
	if intern.HasDecimal((*resource.Quantity)(p)) {
		s.volatile++
	}
	return true
}

type intOrStringCodec struct{}

func (intOrStringCodec) decode(s *state, t uint32, p unsafe.Pointer) bool {
	v := (*intstr.IntOrString)(p)
	if s.first(t) == '"' {
		v.Type, v.StrVal = intstr.String, s.text(t)
		return true
	}
	if s.tokens[t].n == plain && s.first(t) <= '9' {
		n, ok := parseInt(s.source(t))
		v.Type, v.IntVal = intstr.Int, int32(n)
		return ok && math.MinInt32 <= n && n <= math.MaxInt32
	}
	return v.UnmarshalJSON(s.source(t)) == nil
}
