package delta_test

import (
	"errors"
	"testing"

	"github.com/tarnproject/tarn/delta"
	"github.com/tarnproject/tarn/object"
)

func TestNewRejectsInvalidOptions(t *testing.T) {
	if _, err := delta.New(object.Accessor[int]{}, delta.Options[int]{}); err == nil {
		t.Error("an accessor without Key was accepted")
	}
}

func TestAnObjectWithoutAKeyIsRejected(t *testing.T) {
	f, err := delta.New(object.Accessor[any]{Key: object.KeyOf}, delta.Options[any]{})
	must(t, err)
	for name, err := range map[string]error{"Add": f.Add(3), "Update": f.Update(3), "Delete": f.Delete(3)} {
		var key *object.KeyError
		if !errors.As(err, &key) {
			t.Errorf("%s returned %v, want a KeyError", name, err)
		}
	}
	want(t, "synced", f.HasSynced(), false)
	want(t, "pending", f.Len(), 0)
}

func TestNoDeltas(t *testing.T) {
	var none delta.Deltas[*thing]
	if _, ok := none.Oldest(); ok {
		t.Error("nothing has an oldest delta")
	}
	if _, ok := none.Newest(); ok {
		t.Error("nothing has a newest delta")
	}
	want(t, "cause", errors.Is(delta.Requeue(nil), delta.ErrRequeue), true)
}
