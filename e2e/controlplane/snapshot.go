package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Snapshot is etcd's state as it was when [Plane.Snapshot] was called.
type Snapshot struct {
	// Revision is etcd's newest revision at that moment.
	Revision int64
	dir      string
}

// Snapshot keeps a copy of etcd's state. It is taken while etcd is paused, so it equals
// what a crash at that moment leaves, which includes everything that etcd has acknowledged.
// It is deleted with the plane or by [Snapshot.Remove].
func (p *Plane) Snapshot(ctx context.Context) (s *Snapshot, err error) {
	revision, err := p.Revision(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(p.dir, "snapshot-")
	if err != nil {
		return nil, err
	}
	if err := p.Etcd.Pause(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Etcd.Resume()) }()
	copied := filepath.Join(dir, "etcd")
	if err := os.CopyFS(copied, os.DirFS(p.dataDir)); err != nil {
		return nil, fmt.Errorf("controlplane: a snapshot: %w", err)
	}
	return &Snapshot{revision, copied}, nil
}

// Remove deletes the copy, which is of some hundred megabytes. The snapshot cannot be
// restored afterwards.
func (s *Snapshot) Remove() error { return os.RemoveAll(filepath.Dir(s.dir)) }

// Restore goes back to a snapshot, as an operator does with a backup: both parts are killed,
// etcd's data is replaced, both are started again. Versions continue from those of the
// snapshot, so that some are given out a second time.
func (p *Plane) Restore(ctx context.Context, s *Snapshot) error {
	if _, err := os.Stat(s.dir); err != nil {
		return fmt.Errorf("controlplane: restoring: %w", err)
	}
	for _, part := range []*Part{p.APIServer, p.Etcd} {
		if err := part.Kill(); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(p.dataDir); err != nil {
		return err
	}
	if err := os.CopyFS(p.dataDir, os.DirFS(s.dir)); err != nil {
		return fmt.Errorf("controlplane: restoring: %w", err)
	}
	// etcd takes no folder that others may read.
	if err := os.Chmod(p.dataDir, 0o700); err != nil {
		return err
	}
	for _, part := range []*Part{p.Etcd, p.APIServer} {
		if err := part.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}
