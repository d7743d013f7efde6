package arch

import (
	"os"
	"testing"
)

func TestTheTreeKeepsItsRules(t *testing.T) {
	found, err := Check(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range found {
		t.Error(v)
	}
}
