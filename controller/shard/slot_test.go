package shard

import (
	"fmt"
	"testing"

	"github.com/tarnproject/tarn/object"
)

// Namespaces and names are often numbered. 256 of them in 256 slots leave about a third empty.
func TestNumberedNamesAreSpreadOverTheSlots(t *testing.T) {
	for name, slot := range map[string]func(i int) string{
		"namespaces": func(i int) string { return ByNamespace(object.Key{Namespace: fmt.Sprint("team-", i), Name: "web"}) },
		"padded":     func(i int) string { return ByNamespace(object.Key{Namespace: fmt.Sprintf("customer-%04d", i)}) },
		"keys":       func(i int) string { return ByKey(object.Key{Namespace: "shop", Name: fmt.Sprint("web-", i)}) },
	} {
		slots := map[string]int{}
		for i := range Slots {
			slots[slot(i)]++
		}
		most := 0
		for _, n := range slots {
			most = max(most, n)
		}
		if len(slots) < Slots/2 || most > 8 {
			t.Errorf("%s: %d of %d slots are used, one for %d", name, len(slots), Slots, most)
		}
	}
}
