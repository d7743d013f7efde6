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

// seed is an object of a file.
type seed struct {
	file     string
	document int // from 1 on
	obj      *unstructured.Unstructured
}

// where names the place for people.
func (s seed) where() string { return fmt.Sprintf("%s, document %d", s.file, s.document) }

// seedLimit is how many bytes all files of --seed may have together. Decoded they take some
// twenty times as much.
const seedLimit = 64 << 20

// readSeed reads the YAML and JSON files below a path, in the order in which they are to
// be stored. Nothing is read for an empty path.
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
			return usagef("--seed: the files of %s have more than %s together, up to %s; load fewer of them", root, byteText(seedLimit), path)
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
		return nil, usagef("--seed: there are no objects in %s; its files must end in .yaml, .yml or .json", root)
	}
	slices.SortStableFunc(seeds, func(a, b seed) int { return rank(a.obj) - rank(b.obj) })
	return seeds, nil
}

// rank says what has to be there before what.
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

// readDocument returns the object of a document, or those of a list; none if it holds
// nothing but comments.
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
		return nil, errors.New("it is not an object with apiVersion, kind and metadata")
	}
	if obj.GetAPIVersion() == "" || obj.GetKind() == "" {
		return nil, errors.New("it has no apiVersion or no kind")
	}
	// Decoded once more, by the rules for whole numbers that objects have.
	if err := obj.UnmarshalJSON(raw); err != nil {
		return nil, err
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

// plant stores seeds. A namespace that the server has from the start is updated.
func plant(ctx context.Context, server *apiserver.Server, seeds []seed) error {
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
			return fmt.Errorf("%s: the kind %s of %s is not known; is its CustomResourceDefinition missing?", s.where(), s.obj.GetKind(), s.obj.GetAPIVersion())
		default:
			return fmt.Errorf("%s: %s", s.where(), oneLine(strings.TrimPrefix(err.Error(), "apiserver: ")))
		}
	}
	return owners.restore(server)
}
