package jsondec

import (
	"encoding/json"
	"reflect"
	"testing"
	"unsafe"

	"github.com/tarnproject/tarn/internal/decodertest"
	"github.com/tarnproject/tarn/internal/intern"
	"github.com/tarnproject/tarn/internal/soak"
)

var codecJSON = decodertest.Codec{
	Encode: json.Marshal,
	Decoder: func(t reflect.Type, parts *intern.Parts) (func([]byte) (unsafe.Pointer, error), error) {
		m, err := newMachine(reflect.PointerTo(t), Options{Share: parts})
		return m.decode, err
	},
}

func TestO02_QuantitiesOfDifferentObjectsAreReadConcurrently(t *testing.T) {
	codecJSON.ReadConcurrently(t)
}

func TestO02_NothingThatReadingWritesToIsShared(t *testing.T) {
	codecJSON.SharesNothingVolatile(t, soak.Part(decodertest.Kinds()))
}
