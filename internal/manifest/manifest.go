// Package manifest reads Kubernetes objects from YAML and JSON files.
package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Object is an object of a file.
type Object struct {
	*unstructured.Unstructured
	File     string // empty if it is unknown
	Document int    // starts at 1
}

// Where returns the position in the file for error messages.
func (o Object) Where() string { return where(o.File, o.Document) }

func where(file string, document int) string {
	if file == "" {
		return fmt.Sprintf("document %d", document)
	}
	return fmt.Sprintf("%s, document %d", file, document)
}

// IsManifest reports whether a file has the name of a YAML or JSON file with objects. Those of
// kustomize have none, and kubebuilder writes them without apiVersion and kind.
func IsManifest(file string) bool {
	switch filepath.Base(file) {
	case "kustomization.yaml", "kustomization.yml", "kustomizeconfig.yaml":
		return false
	}
	return slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(path.Ext(file)))
}

// Read returns the objects of a file with any number of documents, and the items of lists.
// Documents of only comments and kustomizations are left out. Errors name the file and the
// document.
func Read(file string, text []byte) (objs []Object, err error) {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for n := 1; ; n++ {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objs, nil
		}
		var found []*unstructured.Unstructured
		if err == nil {
			found, err = readDocument(text)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where(file, n), err)
		}
		for _, obj := range found {
			objs = append(objs, Object{Unstructured: obj, File: file, Document: n})
		}
	}
}

func readDocument(text []byte) ([]*unstructured.Unstructured, error) {
	raw, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors:"))
	}
	if string(bytes.TrimSpace(raw)) == "null" {
		return nil, nil
	}
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(raw, &obj.Object); err != nil {
		return nil, errors.New("not an object with apiVersion, kind and metadata")
	}
	if obj.GetAPIVersion() == "" || obj.GetKind() == "" {
		return nil, errors.New("apiVersion or kind is missing")
	}
	// UnmarshalJSON decodes whole numbers as int64.
	if err := obj.UnmarshalJSON(raw); err != nil {
		return nil, err
	}
	if strings.HasPrefix(obj.GetAPIVersion(), "kustomize.config.k8s.io/") {
		return nil, nil // for kubectl apply -k
	}
	if !obj.IsList() {
		return []*unstructured.Unstructured{obj}, nil
	}
	var objs []*unstructured.Unstructured
	err = obj.EachListItem(func(item runtime.Object) error {
		objs = append(objs, item.(*unstructured.Unstructured))
		return nil
	})
	return objs, err
}
