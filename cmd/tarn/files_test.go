package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestC20_ASeedThatIsNoFileIsRefused has a FIFO, which would be waited for, and a device,
// which would be read for ever.
func TestC20_ASeedThatIsNoFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo.yaml")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Skip(err)
	}
	zero := filepath.Join(t.TempDir(), "zero.yaml")
	if err := os.Symlink("/dev/zero", zero); err != nil {
		t.Skip(err)
	}
	socket := filepath.Join(t.TempDir(), "s.yaml")
	if l, err := net.Listen("unix", socket); err == nil {
		defer l.Close()
	}
	for _, path := range []string{fifo, dir, zero, filepath.Dir(zero), "/dev/zero", socket} {
		if r := call(t.Context(), "apiserver", "--seed", path); r.code != exitUsage || !strings.Contains(r.err, "is not a regular file") {
			t.Errorf("%s: %v", path, r)
		}
	}
}
