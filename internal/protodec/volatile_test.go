package protodec

import (
	"reflect"
	"testing"
	"unsafe"

	"github.com/tarnproject/tarn/internal/decodertest"
	"github.com/tarnproject/tarn/internal/intern"
	"github.com/tarnproject/tarn/internal/soak"
)

var codecProto = decodertest.Codec{
	Encode: func(obj any) ([]byte, error) { return obj.(generated).Marshal() },
	Decoder: func(t reflect.Type, parts *intern.Parts) (func([]byte) (unsafe.Pointer, error), error) {
		e, err := newEngine(t, Options{Share: parts})
		return e.decode, err
	},
}

func TestO02_QuantitiesOfDifferentObjectsAreReadConcurrently(t *testing.T) {
	codecProto.ReadConcurrently(t)
}

func TestO02_NothingThatReadingWritesToIsShared(t *testing.T) {
	codecProto.SharesNothingVolatile(t, soak.Part(kinds()))
}
