package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/tarnproject/tarn/apiserver"
)

// seed is an object in a file.
type seed struct {
	file     string
	document int // starts at 1
	obj      *unstructured.Unstructured
}

// where returns the position in the file for error messages.
func (s seed) where() string { return fmt.Sprintf("%s, document %d", s.file, s.document) }

// seedLimit limits the total size of --seed files in bytes. Decoded objects take about
// twenty times as much memory.
const seedLimit = 64 << 20

// readSeed reads the YAML and JSON files under root and returns their objects in the order
// of creation. An empty root yields none.
func readSeed(ctx context.Context, root string) ([]seed, error) {
	if root == "" {
		return nil, nil
	}
	var seeds []seed
	left := int64(seedLimit)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return usagef("--seed: cannot read %s: %s", path, reason(err))
		case entry.IsDir() || path != root && !slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(path))):
			return nil
		}
		content, err := readFile(path, left)
		if errors.Is(err, errTooLarge) {
			return usagef("--seed: files in %s exceed %s in total (at %s); load fewer of them", root, byteText(seedLimit), path)
		} else if err != nil {
			return usagef("--seed: cannot read %s: %s", path, reason(err))
		}
		left -= int64(len(content))
		more, err := readSeedFile(ctx, path, content)
		seeds = append(seeds, more...)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(seeds) == 0 {
		return nil, usagef("--seed: no objects found in %s; file names must end in .yaml, .yml or .json", root)
	}
	slices.SortStableFunc(seeds, func(a, b seed) int { return rank(a.obj) - rank(b.obj) })
	return seeds, nil
}

// rank returns the order of creation.
func rank(obj *unstructured.Unstructured) int {
	switch obj.GetKind() {
	case "CustomResourceDefinition":
		return 0
	case "Namespace":
		return 1
	}
	return 2
}

func readSeedFile(ctx context.Context, path string, content []byte) (seeds []seed, err error) {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for n := 1; ; n++ {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return seeds, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s, document %d: %s", path, n, oneLine(err.Error()))
		}
		objs, err := readDocument(text)
		if err != nil {
			return nil, fmt.Errorf("%s, document %d: %s", path, n, oneLine(err.Error()))
		}
		for _, obj := range objs {
			seeds = append(seeds, seed{file: path, document: n, obj: obj})
		}
	}
}

// readDocument returns the object in a document, or the items of a list. A document of only
// comments and a kustomization yield none.
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

// createSeeds stores the objects. Namespaces that exist on a new server are updated.
func createSeeds(ctx context.Context, server *apiserver.Server, seeds []seed) error {
	var owners seedOwners
	for _, s := range seeds {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		refs := owners.hold(s.obj)
		made, err := server.Create(s.obj)
		if apierrors.IsAlreadyExists(err) && s.obj.GetKind() == "Namespace" {
			s.obj.SetResourceVersion("")
			made, err = server.Update(s.obj)
		}
		switch {
		case err == nil:
			owners.stored(s.obj, made.(metav1.Object), refs)
		case strings.HasSuffix(err.Error(), "is not served"):
			return fmt.Errorf("%s: unknown kind %s in %s; is its CustomResourceDefinition missing?", s.where(), s.obj.GetKind(), s.obj.GetAPIVersion())
		default:
			return fmt.Errorf("%s: %s", s.where(), oneLine(strings.TrimPrefix(err.Error(), "apiserver: ")))
		}
	}
	return owners.restore(server)
}
