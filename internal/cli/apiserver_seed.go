package cli

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarnproject/tarn/apiserver"
	"github.com/tarnproject/tarn/internal/manifest"
)

// seedLimit limits the total size of --seed files in bytes. Decoded objects take about
// twenty times as much memory.
const seedLimit = 64 << 20

// readSeed reads the YAML and JSON files under root and returns their objects. An empty root
// yields none.
func readSeed(ctx context.Context, root string) ([]runtime.Object, error) {
	if root == "" {
		return nil, nil
	}
	var seeds []runtime.Object
	left := int64(seedLimit)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return usagef("--seed: cannot read %s: %s", path, reason(err))
		case entry.IsDir() || path != root && !manifest.IsManifest(path):
			return nil
		}
		content, err := readFile(path, left)
		if errors.Is(err, errTooLarge) {
			return usagef("--seed: files in %s exceed %s in total (at %s); load fewer of them", root, byteText(seedLimit), path)
		} else if err != nil {
			return usagef("--seed: cannot read %s: %s", path, reason(err))
		}
		left -= int64(len(content))
		objs, err := manifest.Read(path, content)
		if err != nil {
			return errors.New(oneLine(err.Error()))
		}
		for _, obj := range objs {
			seeds = append(seeds, obj)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(seeds) == 0 {
		return nil, usagef("--seed: no objects found in %s; file names must end in .yaml, .yml or .json", root)
	}
	return seeds, nil
}

// createSeeds stores the objects.
func createSeeds(ctx context.Context, server *apiserver.Server, seeds []runtime.Object) error {
	_, err := interruptible(ctx, func() (struct{}, error) { return struct{}{}, server.LoadObjects(seeds...) })
	if err != nil && ctx.Err() == nil {
		return errors.New(oneLine(strings.TrimPrefix(err.Error(), "apiserver: ")))
	}
	return err
}
