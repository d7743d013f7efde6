package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

var (
	errTooLarge  = errors.New("file is too large")
	errIrregular = errors.New("not a regular file")
	errDirectory = errors.New("is a directory")
)

// readFile reads a regular file of up to limit bytes. It rejects pipes and devices, which
// may block or never end.
func readFile(path string, limit int64) ([]byte, error) {
	// O_NONBLOCK, so that opening a pipe without a writer does not block.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) {
		return nil, errIrregular // a socket
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, errDirectory
	case !info.Mode().IsRegular():
		return nil, errIrregular
	}
	// The file may have grown since Stat.
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if int64(len(content)) > limit {
		return nil, errTooLarge
	}
	return content, err
}

// readable returns an error if a kubeconfig cannot be read. It accepts a pipe, as from
// <(command), without opening it, because a pipe can be read only once. The null device is
// an empty kubeconfig.
func readable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return errDirectory
	case info.Mode()&fs.ModeNamedPipe != 0, path == os.DevNull:
		return nil
	case !info.Mode().IsRegular():
		return errIrregular
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return f.Close()
}

// interruptible runs a function that does not take a context. It returns early with ctx's
// error if ctx ends; the function then keeps running in the background.
func interruptible[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	ended := make(chan outcome, 1)
	go func() {
		value, err := f()
		ended <- outcome{value, err}
	}()
	select {
	case got := <-ended:
		return got.value, got.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
