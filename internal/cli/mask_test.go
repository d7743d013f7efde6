package cli

import (
	"strings"
	"testing"

	"github.com/tarnproject/tarn/internal/objectdiff"
	"github.com/tarnproject/tarn/object"
)

const secretText = `{"apiVersion":"v1","kind":"Secret","type":"Opaque","metadata":{"namespace":"shop","name":"web","resourceVersion":"1",
	"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"data\":{\"password\":\"WORD\"}}","kapp.k14s.io/original":"{\"data\":{\"password\":\"WORD\"}}","copy":"it is WORD","note":"seen"}},
	"data":{"password":"WORD"},"stringData":{"token":"WORD"}}`

func TestSecretsAreMaskedInEveryOutputByDefault(t *testing.T) {
	key := object.Key{Namespace: "shop", Name: "web"}
	old := parse(t, strings.ReplaceAll(secretText, "WORD", "aHVudGVyMQ=="))
	new := parse(t, strings.ReplaceAll(secretText, "WORD", "aHVudGVyMg=="))
	added := parse(t, `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"shop","name":"web"}}`)
	scalar := parse(t, `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"shop","name":"web"},"data":"aHVudGVyMg=="}`)
	unlabelled := new.DeepCopy() // like the items of a list
	delete(unlabelled.Object, "kind")
	delete(unlabelled.Object, "apiVersion")
	all := []objectChange{
		{res: secrets, key: key, kind: object.Added, initial: true, obj: old},
		{res: secrets, key: key, kind: object.Updated, old: old, obj: new},
		{res: secrets, key: key, kind: object.Updated, old: added, obj: new},
		{res: secrets, key: key, kind: object.Updated, old: old, obj: added},
		{res: secrets, key: key, kind: object.Updated, old: old, obj: scalar},
		{res: secrets, key: key, kind: object.Updated, old: old, obj: unlabelled},
		{res: secrets, key: key, kind: object.Deleted, obj: new},
		// A Secret in the list of another resource.
		{res: configMaps, key: key, kind: object.Updated, old: old, obj: new},
	}
	for i := range all {
		all[i].row = &tableRow{key: key, columns: fallback, cells: []any{"web", "1s"}}
	}
	for _, output := range outputs {
		for _, show := range []bool{false, true} {
			made, err := rendering{output: output, showSecrets: show}.renderer()
			if err != nil {
				t.Fatal(err)
			}
			var text page
			if err := made.render(&text, all); err != nil {
				t.Fatal(err)
			}
			names := output == "table" || output == "wide"
			if shown := strings.Contains(text.String(), "aHVudGVy"); shown != (show && !names) {
				t.Errorf("-o %s, asked for %v, shows %v:\n%s", output, show, shown, text.String())
			}
			if !show && !names && !strings.Contains(text.String(), "password") {
				t.Errorf("-o %s hides the names of keys:\n%s", output, text.String())
			}
		}
	}
}

func TestMaskDoesNotWriteToTheObject(t *testing.T) {
	obj := parse(t, strings.ReplaceAll(secretText, "WORD", "aHVudGVyMg=="))
	before := obj.DeepCopy()
	masked := mask(secrets, obj)
	if len(objectdiff.Diff(before.Object, obj.Object)) != 0 {
		t.Error("the object was written to")
	}
	if text, _ := masked.MarshalJSON(); !strings.Contains(string(text), `"note":"seen"`) || strings.Contains(string(text), "aHVudGVy") {
		t.Errorf("masked as %s", text)
	}
	other := parse(t, `{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"b"}}`)
	if mask(configMaps, other) != other {
		t.Error("what is no Secret was copied")
	}
}
