package arch_test

import (
	"os"
	"testing"

	"github.com/tarnproject/tarn/internal/arch"
)

func TestTheTreeKeepsItsRules(t *testing.T) {
	found, err := arch.Check(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range found {
		t.Error(v)
	}
}
