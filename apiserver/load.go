package apiserver

import (
	"fmt"
	"io/fs"

	"github.com/tarnproject/tarn/internal/manifest"
	"k8s.io/apimachinery/pkg/runtime"
)

// Load creates the objects in all files of a file system, such as os.DirFS("testdata"), whose
// names end in .yaml, .yml or .json, without the files kustomization.yaml, kustomization.yml and
// kustomizeconfig.yaml. See [Server.LoadObjects].
func (s *Server) Load(files fs.FS) error {
	var objs []runtime.Object
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !manifest.IsManifest(path) {
			return err
		}
		text, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		more, err := readManifest(path, text)
		objs = append(objs, more...)
		return err
	})
	if err != nil {
		return fmt.Errorf("apiserver: loading objects: %w", err)
	}
	return s.LoadObjects(objs...)
}

// LoadYAML creates the objects in a text of one or more YAML or JSON documents, including
// the items of lists. See [Server.LoadObjects].
func (s *Server) LoadYAML(text []byte) error {
	objs, err := readManifest("", text)
	if err != nil {
		return fmt.Errorf("apiserver: loading objects: %w", err)
	}
	return s.LoadObjects(objs...)
}

func readManifest(file string, text []byte) (objs []runtime.Object, err error) {
	found, err := manifest.Read(file, text)
	for _, obj := range found {
		objs = append(objs, obj)
	}
	return objs, err
}

// LoadObjects creates objects of any Go type, like [Server.Create]: CustomResourceDefinitions
// first, then namespaces, then the others in their order. Objects that exist are replaced, like
// [Server.Update] does, except that an object without a status keeps the stored one.
//
// An export of a whole cluster can be loaded. References to owners that are loaded too, by the UIDs
// that they have in the arguments, are kept; all others are dropped, because the server assigns
// UIDs of its own. With [Options.Strict], the labels that Jobs and their pods have of the UID of
// the Job change with it, and a Service with a cluster IP that this server does not have gets
// another.
func (s *Server) LoadObjects(objs ...runtime.Object) error { return s.registry.LoadObjects(objs) }
