package crds_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/tarnproject/tarn/bench/crds"
)

const some = 5_000

func TestMeanSizeIsThatOfTheDocs(t *testing.T) {
	total, least, most := 0, 1<<30, 0
	for _, o := range crds.Generate(crds.Options{Objects: some}) {
		data, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		total, least, most = total+len(data), min(least, len(data)), max(most, len(data))
	}
	t.Logf("mean size %d bytes, from %d to %d", total/some, least, most)
	if mean := total / some; mean < 1_900 || mean > 2_300 {
		t.Errorf("mean size is %d bytes; want about 2,000", mean)
	}
}

func TestObjectsDifferAndComeInOrder(t *testing.T) {
	keys, versions, uids := map[string]bool{}, map[string]bool{}, map[string]bool{}
	namespaces := map[string]bool{}
	last := ""
	for _, o := range crds.Generate(crds.Options{Objects: some}) {
		key := o.GetNamespace() + "\x00" + o.GetName()
		if key <= last {
			t.Errorf("%q comes after %q", key, last)
		}
		keys[key], last = true, key
		versions[o.GetResourceVersion()], uids[string(o.GetUID())] = true, true
		namespaces[o.GetNamespace()] = true
	}
	if len(keys) != some || len(versions) != some || len(uids) != some || len(namespaces) != 200 {
		t.Errorf("%d keys, %d versions, %d UIDs of %d; %d namespaces of 200", len(keys), len(versions), len(uids), some, len(namespaces))
	}
}

func TestTheSameOptionsGiveTheSameObjects(t *testing.T) {
	all := func(seed uint64) []byte {
		data, err := json.Marshal(crds.Generate(crds.Options{Objects: 100, Seed: seed}))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	if !bytes.Equal(all(1), all(1)) {
		t.Error("the same seed gave different objects")
	}
	if bytes.Equal(all(1), all(2)) {
		t.Error("another seed gave the same objects")
	}
}
